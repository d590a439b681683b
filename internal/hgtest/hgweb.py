# Serves a hgweb configuration as a web server does that has authenticated its
# users. Who asks and how stands at the start of the path: /SCHEME/USER/REPO,
# with "-" for somebody anonymous and the user's name quoted twice.
#
# usage: hgweb.py CONFIG

import os
import socketserver
import sys
import urllib.parse
from wsgiref import simple_server

from mercurial import demandimport

demandimport.disable()
from mercurial.hgweb import hgweb

inner = hgweb(sys.argv[1].encode())


def application(environ, start_response):
    _, scheme, user, rest = (environ['PATH_INFO'] + '/').split('/', 3)
    environ['SCRIPT_NAME'] = '/%s/%s' % (scheme, user)
    environ['PATH_INFO'] = '/' + rest.rstrip('/')
    environ['wsgi.url_scheme'] = scheme
    if user != '-':
        environ['REMOTE_USER'] = os.fsdecode(urllib.parse.unquote_to_bytes(user))
    return inner(environ, start_response)


class Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True


server = simple_server.make_server('127.0.0.1', 0, application, Server)
print('listening at http://127.0.0.1:%d/' % server.server_port, flush=True)
server.serve_forever()
