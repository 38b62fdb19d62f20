package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// generate is for packages and archives: they contain files that an installed program cannot write itself.
func (c *command) generate() *cobra.Command {
	return &cobra.Command{
		Use:    "generate DIR",
		Short:  "Write the man page and the shell completions into a folder",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			root.InitDefaultHelpFlag()
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // packages give these files to everyone
				return usage("%v", err)
			}
			for name, write := range map[string]func(io.Writer) error{
				"lockmw.1":    func(w io.Writer) error { return writeManual(w, root) },
				"lockmw.bash": func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
				"_lockmw":     root.GenZshCompletion, // zsh finds it by this name
				"lockmw.fish": func(w io.Writer) error { return root.GenFishCompletion(w, true) },
				"lockmw.ps1":  root.GenPowerShellCompletionWithDesc,
			} {
				var file bytes.Buffer
				if err := write(&file); err != nil {
					return err
				}
				if err := os.WriteFile(filepath.Join(args[0], name), file.Bytes(), 0o644); err != nil { //nolint:gosec // as above
					return usage("%v", err)
				}
			}
			return nil
		},
	}
}
