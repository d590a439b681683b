"""Stands between hg and a server: record.py URL PREFIX passes requests on to
URL, prints its own port, and writes the body of each unbundle to PREFIX1.req
and so on, its answer to PREFIX1.rep, and the answer to getbundle to
PREFIX.get, decompressed."""

import http.server
import sys
import urllib.request
import zlib

url, prefix = sys.argv[1:]
pushes = 0


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global pushes
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        # Without X-HgProto the answer to getbundle is compressed with zlib.
        headers = {k: v for k, v in self.headers.items()
                   if k.lower() not in ("host", "connection", "x-hgproto-1")}
        req = urllib.request.Request(url + self.path, headers=headers,
                                     data=body if self.command == "POST" else None)
        with urllib.request.urlopen(req) as rep:
            answer, kind = rep.read(), rep.headers["Content-Type"]
        if "cmd=unbundle" in self.path:
            pushes += 1
            open("%s%d.req" % (prefix, pushes), "wb").write(body)
            open("%s%d.rep" % (prefix, pushes), "wb").write(answer)
        if "cmd=getbundle" in self.path:
            open(prefix + ".get", "wb").write(zlib.decompress(answer))
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_GET

    def log_message(self, *args):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
