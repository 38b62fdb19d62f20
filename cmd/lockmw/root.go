package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockmw/go/lockmw"
)

// A console holds the input, the outputs and the environment of a command.
type console struct {
	in       io.Reader
	out, err io.Writer
	env      func(string) string
	width    int // columns to print in; 0: as many as out has, if it is a terminal
}

// terminalWidth returns the number of columns of the output; 0 if it is not a terminal.
func (c *console) terminalWidth() int {
	if f, ok := c.out.(*os.File); ok && c.width == 0 {
		width, _, err := term.GetSize(f.Fd())
		if err == nil {
			return width
		}
	}
	return c.width
}

// A command is one run of the program.
type command struct {
	io      console
	input   *bufio.Reader // of io.in; nil before the first question
	out     *bufio.Writer // flushed at the end, and after each line that a reader waits for
	redis   address
	prefix  string
	json    bool
	timeout time.Duration
	secrets secrets

	conn *connection
}

// run runs one command line and returns its exit status.
func run(ctx context.Context, io console, args []string) int {
	c := &command{io: io, out: bufio.NewWriter(io.out)}
	root := c.root()
	root.SetArgs(args)
	root.SetIn(io.in)
	root.SetOut(io.out)
	root.SetErr(io.err)
	err := root.ExecuteContext(ctx)
	if c.conn != nil {
		c.conn.close()
	}
	return c.exitStatus(ctx, errors.Join(err, c.out.Flush()))
}

func (c *command) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "lockmw",
		Short:         "Show who holds Redis locks and who waits for them, and release them",
		SilenceErrors: true,
		SilenceUsage:  true,
		Long: `Shows who holds Redis locks and who waits for them, and releases them.

An environment variable can replace each global flag: LOCKMW_REDIS for --redis, LOCKMW_TLS_CA for --tls-ca, and so on.
Keep passwords off the command line: use LOCKMW_PASSWORD or --password-file.

--redis accepts
  host:port
  redis://user@host:port/db
  redis+sentinel://user@host:26379,host:26379/master/db
  redis+cluster://user@host:port,host:port
For TLS, write rediss in place of redis.

Each command has its own help, such as lockmw ls --help. The manual is
` + documents + `command.md

Exit statuses: 0 done; 1 Redis is unreachable or refuses a command; 2 wrong command line; 3 nothing found;
4 the hold to release has ended or never existed; 5 not confirmed; 6 doctor found that locks do not work on this Redis.
For verify, 1 also means that a promise was broken, or that no fail-over was noticed; for watch --until-free, that the lock
did not become free.`,
		Version:           strings.TrimPrefix(versionText(), "lockmw "),
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return c.readVariables(cmd.Root().PersistentFlags()) },
	}
	f := root.PersistentFlags()
	f.StringVar(&c.redis.URL, "redis", "localhost:6379", "address of Redis: host:port or a URL")
	f.StringVar(&c.redis.User, "user", "", "Redis user")
	f.StringVar(&c.redis.passwordFile, "password-file", "", "file that contains the password")
	f.StringVar(&c.redis.CA, "tls-ca", "", "file with the CA certificates to trust")
	f.StringVar(&c.redis.Cert, "tls-cert", "", "file with the client certificate")
	f.StringVar(&c.redis.Key, "tls-key", "", "file with the key of the client certificate")
	f.StringVar(&c.prefix, "prefix", "lockmw", "key prefix; must match lockmw.WithPrefix")
	f.BoolVar(&c.redis.slotted, "slotted-keys", false, "Redis is a proxy in front of several servers; must match lockmw.WithSlottedKeys")
	f.DurationVar(&c.timeout, "timeout", 5*time.Second, "timeout for each answer of Redis")
	f.BoolVar(&c.json, "json", false, "print JSON, one object per line")
	root.SetVersionTemplate("lockmw {{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && unknown.GetSpecifiedShortnames() != "" {
			return usage("unknown flag: -%.1s", unknown.GetSpecifiedShortnames()) // the rest could be a password
		}
		return usage("%v", err)
	})
	root.AddCommand(c.list(), c.show(), c.tasks(), c.watch(), c.unlock(), c.top(), c.history(), c.doctor(), c.bench(), c.verify(), c.serve(), c.version(), c.generate())
	root.SetHelpFunc(printHelp)
	for _, sub := range root.Commands() {
		sub.ValidArgsFunction = cobra.NoFileCompletions
		check := sub.Args
		sub.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usage("%s: %s", withoutURLs(err, args), cmd.UseLine())
			}
			return nil
		}
	}
	root.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usage("%s: see lockmw --help", withoutURLs(fmt.Errorf("unknown command %q", args[0]), args))
		}
		return nil
	}
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return root
}

// withoutURLs returns the text of an error about arguments. It hides each argument that looks like a URL, which may contain a
// password.
func withoutURLs(err error, args []string) string {
	text := err.Error()
	for _, arg := range args {
		if strings.Contains(arg, "@") || strings.Contains(arg, "://") {
			text = strings.ReplaceAll(text, strconv.Quote(arg), "…")
		}
	}
	return text
}

// readVariables sets each flag that the command line leaves out to the value of its environment variable.
func (c *command) readVariables(flags *pflag.FlagSet) (failed error) {
	c.redis.Password = c.io.env("LOCKMW_PASSWORD")
	flags.VisitAll(func(f *pflag.Flag) {
		name := "LOCKMW_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if value := c.io.env(name); value != "" && !f.Changed {
			if err := f.Value.Set(value); err != nil && failed == nil {
				failed = usage("%s: %v", name, err)
			}
		}
	})
	if failed == nil && c.timeout <= 0 { // go-redis would replace it by its own default, or fail
		failed = usage("--timeout: more than 0")
	}
	return failed
}

// connect connects to the server and returns an Inspector of its locks.
func (c *command) connect(ctx context.Context) (*lockmw.Inspector, error) {
	conn, err := c.redis.connect(ctx, c.timeout, &c.secrets)
	if err != nil {
		return nil, err
	}
	c.conn = conn
	inspector, err := lockmw.NewInspector(conn.client, c.layout(c.prefix)...)
	if errors.Is(err, lockmw.ErrInvalidOption) {
		return nil, usage("--prefix: %v", err)
	}
	return inspector, err
}

// layout returns the options that determine the keys of locks.
func (c *command) layout(prefix string) []lockmw.ClientOption {
	opts := []lockmw.ClientOption{lockmw.WithPrefix(prefix)}
	if c.redis.slotted {
		opts = append(opts, lockmw.WithSlottedKeys())
	}
	return opts
}

// A build describes how this program was built.
type build struct {
	Version string `json:"version"`
	Go      string `json:"go"`
}

// version is set by the linker in released archives and images. It is "" in a program that `go install` has built: the go command
// records the version there.
var version string

func readBuild() build {
	b := build{Version: "unknown"}
	if info, ok := debug.ReadBuildInfo(); ok {
		b = build{info.Main.Version, info.GoVersion}
	}
	b.Version = cmp.Or(version, b.Version)
	return b
}

// versionText is the line that --version and the command version print.
func versionText() string {
	b := readBuild()
	return strings.TrimSpace("lockmw " + b.Version + " " + b.Go)
}

func (c *command) version() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Example: `  lockmw version
  lockmw version --json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if c.json {
				return c.printJSON(readBuild())
			}
			printf(c.out, "%s\n", versionText())
			return nil
		},
	}
}
