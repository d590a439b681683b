package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"vcsd/config"
	"vcsd/hg"
	"vcsd/hook"
	"vcsd/ingest"
	"vcsd/internal/vfs"
	"vcsd/outgoing"
	"vcsd/refs"
	"vcsd/refs/embedded"
	"vcsd/store"
	"vcsd/wire"
)

type serveCmd struct {
	Repository  string   `short:"R" xor:"what" placeholder:"REPO" help:"Serve one repository (default: that of the working directory)."`
	Root        string   `xor:"what,file" placeholder:"DIR" help:"Serve every repository below DIR."`
	WebConf     string   `name:"web-conf" xor:"file" aliases:"webdir-conf" placeholder:"FILE" help:"Serve the repositories that a hgweb configuration names."`
	Address     string   `short:"a" placeholder:"ADDR" help:"Address to listen on (default: all)."`
	Port        string   `short:"p" placeholder:"PORT" help:"Port to listen on (default: 8000; 0: any)."`
	IPv6        bool     `name:"ipv6" short:"6" help:"Use IPv6 in addition to IPv4."`
	Name        string   `short:"n" help:"Name to show in web pages."`
	Prefix      string   `help:"Path to serve from (default: /)."`
	AccessLog   string   `name:"accesslog" short:"A" placeholder:"FILE" help:"File to write accesses to."`
	ErrorLog    string   `name:"errorlog" short:"E" placeholder:"FILE" help:"File to write errors to."`
	PidFile     string   `name:"pid-file" placeholder:"FILE" help:"File to write the process id to."`
	Certificate string   `placeholder:"FILE" help:"Certificate and key to serve TLS with, in PEM."`
	Config      []string `sep:"none" placeholder:"SECT.KEY=VAL" help:"Set a configuration value (may be repeated)."`
	State       string   `placeholder:"DIR" help:"State of the embedded etcd, shared by all vcsd processes of this user (default: ~/.local/state/vcsd)."`
	Etcd        []string `placeholder:"URL" help:"Use an external etcd instead."`

	Cwd      string `placeholder:"DIR" help:"Change the working directory first."`
	PrintURL bool   `name:"print-url" help:"Print the URL alone."`
	Quiet    bool   `short:"q" help:"Print nothing but errors."`
	Verbose  bool   `short:"v" help:"Write what happens to the error log, not errors alone."`
	Daemon   bool   `short:"d" hidden:""` // refused

	drain drain

	// Flags of hg serve that change nothing here.
	Templates string `short:"t" hidden:""`
	Style     string `hidden:""`
	Subrepos  bool   `short:"S" hidden:""`
	Debug     bool   `hidden:""`
	Traceback bool   `hidden:""`

	Noninteractive bool   `short:"y" hidden:""`
	Encoding       string `hidden:""`
	EncodingMode   string `name:"encodingmode" hidden:""`
	Pager          string `hidden:""`
	Time           bool   `hidden:""`
	Profile        bool   `hidden:""`
	Hidden         bool   `hidden:""`
}

// errDaemon refuses -d: whoever asks for it waits for the command to return.
var errDaemon = errors.New("vcsd stays in the foreground: leave out -d, and let a service manager keep it running")

// Run serves until the context of s ends.
func (c *serveCmd) Run(s *streams) (err error) {
	if c.Daemon {
		return errDaemon
	}
	if c.Cwd != "" {
		if err := os.Chdir(c.Cwd); err != nil {
			return err
		}
	}
	conf, err := c.load()
	if err != nil {
		return err
	}
	web, err := conf.config.Web()
	if err != nil {
		return err
	}
	logs, err := c.openLogs(s, &web)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, logs.Close()) }()
	ids, err := newIdentities(conf.vcsd)
	if err != nil {
		return err
	}
	defer limitGarbage(os.Getenv)()
	logFaults(logs.log, newHooks(conf.config, "", hook.Options{}))
	configs := newConfigs(conf.loader, conf.config, func() (*config.Config, error) { return c.reload(conf) }, logs.log)
	configs.hooks = hook.Options{Timeout: conf.vcsd.HookTimeout, Limit: hook.NewLimit(conf.vcsd.HookSlots)}
	reg, closeRefs, err := c.openRegistry(s.ctx, conf, configs, logs.log)
	if err != nil {
		return err
	}
	defer func() {
		reg.close()
		err = errors.Join(err, closeRefs())
	}()
	cat := &catalog{configs: configs, log: logs.log, root: conf.root, fixed: conf.fixed}
	h := &handler{registry: reg, configs: configs, catalog: cat, prefix: web.Prefix, server: web.ServerHeader, ids: ids, log: logs.log}
	if a := conf.vcsd.AdminAddress; a != "" {
		admin, err := h.serveAdmin(a)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, admin.Close()) }()
	}
	c.drain = drain{delay: conf.vcsd.DrainDelay, timeout: conf.vcsd.DrainTimeout}
	return c.listen(s, h, &web, &conf.devel, logs)
}

// loaded is the configuration of the server as a whole.
type loaded struct {
	loader *config.Loader
	config *config.Config
	vcsd   config.Vcsd
	devel  config.Devel

	// What is served unless a file for --web-conf says so.
	root  string // all repositories below a directory
	fixed string // or one
}

func (c *serveCmd) load() (l *loaded, err error) {
	l = &loaded{loader: config.NewLoader()}
	if err := c.locate(l); err != nil {
		return nil, err
	}
	if l.config, err = c.reload(l); err != nil {
		return nil, err
	}
	if l.devel, err = l.config.Devel(); err != nil {
		return nil, err
	}
	l.vcsd, err = l.config.Vcsd()
	return l, err
}

// locate finds what is served.
func (c *serveCmd) locate(l *loaded) (err error) {
	switch {
	case c.WebConf != "":
		c.WebConf, err = filepath.Abs(c.WebConf)
		return err
	case c.Root != "":
		if !isDir(c.Root) {
			return fmt.Errorf("--root %s: no such directory", c.Root)
		}
		l.root, err = filepath.Abs(c.Root)
		return err
	case c.Repository != "":
		if !isRepository(c.Repository) {
			return fmt.Errorf("repository %s not found", c.Repository)
		}
		l.fixed, err = filepath.Abs(c.Repository)
		return err
	}
	l.fixed, err = enclosingRepository()
	return err
}

// reload reads all files that count for the server as a whole, and checks what
// of them may count after its start. The hgrc of a single repository is one of
// them, as in hg serve.
func (c *serveCmd) reload(l *loaded) (conf *config.Config, err error) {
	if conf, err = c.systemConfig(l.loader); err != nil {
		return nil, err
	}
	switch {
	case c.WebConf != "":
		conf, err = l.loader.WebConf(conf, c.WebConf)
	case l.fixed != "":
		dir := filepath.Join(l.fixed, ".hg")
		_, shared, serr := storeOf(dir)
		if serr != nil {
			return nil, serr
		}
		conf, err = l.loader.Repository(conf, dir, shared)
	}
	if err != nil {
		return nil, err
	}
	_, err = newSettings(conf, nil)
	return conf, err
}

// systemConfig reads the files of system and user, and what flags set.
func (c *serveCmd) systemConfig(l *config.Loader) (*config.Config, error) {
	items, err := c.overrides()
	if err != nil {
		return nil, err
	}
	return l.System(items...)
}

func enclosingRepository() (string, error) {
	cwd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for d := cwd; ; d = filepath.Dir(d) {
		if isRepository(d) {
			return d, nil
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("there is no Mercurial repository here (.hg not found)")
		}
	}
}

// overrides returns the configuration that flags set.
func (c *serveCmd) overrides() ([]config.Item, error) {
	var items []config.Item
	for _, arg := range c.Config {
		it, err := config.ParseOverride(arg)
		if err != nil {
			return nil, err
		}
		items = append(items, it)
	}
	for _, f := range []struct{ key, value string }{
		{"address", c.Address}, {"port", c.Port}, {"name", c.Name}, {"prefix", c.Prefix},
		{"accesslog", c.AccessLog}, {"errorlog", c.ErrorLog}, {"certificate", c.Certificate},
	} {
		if f.value != "" {
			items = append(items, config.Item{Section: "web", Key: f.key, Value: f.value, Source: "serve"})
		}
	}
	if c.IPv6 {
		items = append(items, config.Item{Section: "web", Key: "ipv6", Value: "true", Source: "serve"})
	}
	return items, nil
}

// openRegistry connects to etcd and makes the registry. closeRefs ends the
// connection, after the registry was closed.
func (c *serveCmd) openRegistry(ctx context.Context, conf *loaded, configs *configs, log *slog.Logger) (g *registry, closeRefs func() error, err error) {
	bootID, err := ingest.BootID()
	if err != nil {
		return nil, nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, nil, err
	}
	node := host + ":" + strconv.Itoa(os.Getpid())
	v := conf.vcsd
	lockWait, err := lockWait(conf.config, v)
	if err != nil {
		return nil, nil, err
	}
	if v.Node != "" {
		node = v.Node
	}
	client, leave, err := c.connect(ctx, v, node, log)
	if err != nil {
		return nil, nil, err
	}
	admit := newAdmission(v.PushSlots, v.PushQueue, v.QueueWait)
	filelogs := store.NewFilelogCache(cmp.Or(v.CacheBytes, store.DefaultFilelogCacheBytes))
	pulls := outgoing.NewPulls(v.SpoolBytes)
	var maker *bundleMaker
	if v.PullBundles > 0 {
		maker = newBundleMaker(v.PullBundles, log)
	}
	g = newRegistry(process{
		refs: client, configs: configs, log: log, node: node, bootID: bootID,
		filelogs: filelogs, admit: admit, counters: newCounters(filelogs, admit, pulls), pulls: pulls, maker: maker,
		maxOpen: v.OpenRepositories, idleTime: v.IdleTime,
		limits: ingest.Limits{
			MaxPushBytes: v.MaxPushBytes, MaxTextBytes: v.MaxTextBytes, MaxChangesets: v.MaxChangesets,
			QuarantineBytes: v.QuarantineBytes, LockWait: lockWait, PublishWait: v.PublishWait,
		},
	})
	return g, leave, nil
}

// connect connects to etcd, and joins the embedded one if no other is named.
// leave ends both.
func (c *serveCmd) connect(ctx context.Context, v config.Vcsd, node string, log *slog.Logger) (client *refs.Client, leave func() error, err error) {
	endpoints, part := c.Etcd, func() error { return nil }
	if len(endpoints) == 0 {
		endpoints = v.Etcd
	}
	if len(endpoints) == 0 {
		dir, err := c.stateDir(v.State)
		if err != nil {
			return nil, nil, err
		}
		if err := vfs.NewOS("/").MkdirAll(dir); err != nil {
			return nil, nil, err
		}
		member, err := embedded.Join(ctx, dir, embedded.Options{Log: log})
		if err != nil {
			return nil, nil, fmt.Errorf("state directory %s: %w", dir, err)
		}
		endpoints, part = []string{member.Endpoint()}, member.Close
	}
	tlsConf, err := clientTLS(v)
	if err != nil {
		return nil, nil, errors.Join(err, part())
	}
	client, err = refs.Dial(ctx, refs.Server{Endpoints: endpoints, TLS: tlsConf}, refsOptions(v, node, log))
	if err != nil {
		return nil, nil, errors.Join(err, part())
	}
	tellUnreachable(ctx, client, endpoints, log)
	return client, func() error { return errors.Join(client.Close(), part()) }, nil
}

// refsOptions lets no request to etcd take longer than a push may.
func refsOptions(v config.Vcsd, node string, log *slog.Logger) refs.Options {
	o := refs.Options{Node: node, TTL: v.LeaseTTL, Retention: v.OutcomeTTL, Log: log}
	if w := v.PublishWait; w > 0 {
		o.ReadTime, o.SettleTime = min(w, refs.DefaultReadTime), min(w, refs.DefaultSettleTime)
	}
	return o
}

// reachTime is how long the start of a server waits for an etcd that is silent.
const reachTime = 2 * time.Second

// tellUnreachable logs why etcd doesn't answer. The server starts nevertheless:
// reads need no etcd, and pushes wait for it.
func tellUnreachable(ctx context.Context, client *refs.Client, endpoints []string, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	if err := client.Reach(ctx); err != nil {
		log.Error("etcd does not answer: pushes wait for it, reads go on", "etcd", endpoints, "error", err)
	}
}

// lockWait returns how long a push waits for a local hg: our own key, or
// hg's ui.timeout in seconds.
func lockWait(conf *config.Config, v config.Vcsd) (time.Duration, error) {
	if v.LockWait != 0 {
		return v.LockWait, nil
	}
	seconds, err := conf.Int("ui", "timeout", 600)
	return time.Duration(seconds) * time.Second, err
}

// stateDir returns where the embedded etcd lives.
func (c *serveCmd) stateDir(configured string) (string, error) {
	dir := cmp.Or(c.State, configured)
	if dir == "" {
		limit, err := vfs.MaxFileBytes()
		if err != nil {
			return "", err
		}
		if dir, err = defaultStateDir(limit); err != nil {
			return "", err
		}
	}
	return filepath.Abs(dir)
}

// longStateBytes is above the length of the longest file that etcd makes in a
// process that may make any.
const longStateBytes = 128 << 20

// defaultStateDir returns the state directory of a user's processes whose files
// are limited to so many bytes (ulimit -f). Those that may not write what the
// others have written have a directory of their own.
func defaultStateDir(limit int64) (string, error) {
	var dir string
	if base := os.Getenv("XDG_STATE_HOME"); base != "" {
		dir = filepath.Join(base, "vcsd")
	} else if home, err := os.UserHomeDir(); err == nil {
		dir = filepath.Join(home, ".local", "state", "vcsd")
	} else {
		return "", fmt.Errorf("no state directory: set --state or HOME")
	}
	if limit < longStateBytes {
		dir = filepath.Join(dir, "limited-files")
	}
	return dir, nil
}

// listen opens the port and serves until the context ends, then lets what is
// in flight finish.
func (c *serveCmd) listen(s *streams, h *handler, web *config.Web, devel *config.Devel, logs *logs) error {
	l, err := open(web)
	if err != nil {
		return err
	}
	scheme := "http"
	if web.Certificate != "" {
		conf, err := serverTLS(web.Certificate, h.ids.certificates, devel, h.log)
		if err != nil {
			return errors.Join(err, l.Close())
		}
		l, scheme = tls.NewListener(l, conf), "https"
	}
	if c.PidFile != "" {
		if err := os.WriteFile(c.PidFile, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o666); err != nil {
			return errors.Join(err, l.Close())
		}
	}
	c.announce(s.stdout, scheme, l.Addr(), web, h.catalog)
	srv := &http.Server{
		Handler: wire.Linger(h.ids.located(logs.access.logged(h.routes())), wire.Limits{}), MaxHeaderBytes: wire.MaxHeaderBytes, ConnContext: wire.ConnContext,
		ReadHeaderTimeout: time.Minute, IdleTimeout: 5 * time.Minute, ErrorLog: slog.NewLogLogger(logs.log.Handler(), slog.LevelWarn),
	}
	return h.serveUntilDone(s.ctx, srv, wire.ReasonListener(l), c.drain)
}

// open returns the socket to serve at: the one that a supervisor handed over, or a
// new one.
func open(web *config.Web) (net.Listener, error) {
	l, err := inherited()
	if l != nil || err != nil {
		return l, err
	}
	network := "tcp4"
	if web.IPv6 {
		network = "tcp"
	}
	l, err = net.Listen(network, net.JoinHostPort(web.Address, strconv.Itoa(web.Port)))
	if err != nil {
		return nil, listenError(web, err)
	}
	return l, nil
}

// listenError tells why there is no server in the words of hg, which has the
// system's reason begin with a capital.
func listenError(web *config.Web, err error) error {
	reason := err.Error()
	var op *net.OpError
	var call syscall.Errno
	switch {
	case errors.As(err, &call):
		reason = strings.ToUpper(call.Error()[:1]) + call.Error()[1:]
	case errors.As(err, &op):
		reason = op.Err.Error()
	}
	return &hg.Abort{Message: fmt.Sprintf("cannot start server at '%s:%d': %s", web.Address, web.Port, reason)}
}

// announce prints where the server listens, as hg serve does: not if the port
// was chosen and nobody asked. Below a root it also tells how to clone.
func (c *serveCmd) announce(w io.Writer, scheme string, addr net.Addr, web *config.Web, cat *catalog) {
	chosen := c.Port != "" && c.Port != "0" && c.Root == ""
	if c.Quiet || chosen && !c.Verbose && !c.PrintURL {
		return
	}
	tcp := addr.(*net.TCPAddr)
	bound, host := tcp.IP.String(), web.Address
	if tcp.IP.To4() == nil {
		bound = "[" + bound + "]"
	}
	if tcp.IP.IsUnspecified() {
		bound = "*"
	}
	if host == "" || host == "0.0.0.0" {
		host = "localhost"
	}
	base := fmt.Sprintf("%s://%s%s/", scheme, net.JoinHostPort(host, strconv.Itoa(tcp.Port)), web.Prefix)
	if c.PrintURL {
		fmt.Fprintln(w, base)
		return
	}
	fmt.Fprintf(w, "listening at %s (bound to %s:%d)\n", base, bound, tcp.Port)
	if c.Root == "" {
		return
	}
	paths := cat.list()
	for _, p := range paths[:min(len(paths), maxAnnounced)] {
		fmt.Fprintf(w, "  hg clone %s%s\n", base, p.Name)
	}
	if len(paths) > maxAnnounced {
		fmt.Fprintf(w, "  ... and more, listed at %s\n", base)
	}
}

// maxAnnounced is how many repositories are named at the start.
const maxAnnounced = 10
