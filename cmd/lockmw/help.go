package main

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"
)

// columns is the width of help texts and findings.
const columns = 80

// documents is the address of the project's documentation.
const documents = "https://github.com/lockmw/go/blob/main/docs/"

// printHelp prints the help of a command. Only the root lists the global flags; the other commands point there.
func printHelp(cmd *cobra.Command, _ []string) {
	out := cmd.OutOrStdout()
	usage := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		usage = cmd.CommandPath() + " COMMAND [flags]"
	}
	printf(out, "%s\n\nUsage:\n  %s\n", paragraphs(cmp.Or(cmd.Long, cmd.Short)), usage)
	if cmd.Example != "" {
		printf(out, "\nExamples:\n%s\n", safe(cmd.Example))
	}
	for i, sub := range cmd.Commands() {
		if i == 0 {
			printf(out, "\nCommands:\n")
		}
		if sub.IsAvailableCommand() || sub.Name() == "help" {
			printf(out, "  %-*s  %s\n", sub.NamePadding(), sub.Name(), sub.Short)
		}
	}
	if flags := cmd.LocalNonPersistentFlags(); flags.HasAvailableFlags() {
		printf(out, "\nFlags:\n%s", safe(flags.FlagUsagesWrapped(columns)))
	}
	if cmd.HasParent() {
		printf(out, "\nGlobal flags such as --redis, --prefix and --json: see lockmw --help.\n")
	} else {
		printf(out, "\nGlobal flags, for every command:\n%s", safe(cmd.PersistentFlags().FlagUsagesWrapped(columns)))
	}
}

// completes tells shells how to complete the values of a flag.
func completes(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag does not exist
	}
}

// paragraphs wraps a text whose paragraphs are separated by empty lines. Indented lines stay as they are.
func paragraphs(text string) safe {
	var wrapped, paragraph []string
	end := func() {
		if len(paragraph) > 0 {
			wrapped = append(wrapped, wrap(strings.Join(paragraph, " "), columns, 0))
		}
		paragraph = nil
	}
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		if line == "" || line[0] == ' ' || line[0] == '\t' {
			end()
			wrapped = append(wrapped, line)
			continue
		}
		paragraph = append(paragraph, line)
	}
	end()
	return safe(strings.Join(wrapped, "\n"))
}

// wrap breaks a text between words into lines of at most width characters and indents all but the first; the caller has
// subtracted the indentation from width. A word longer than width gets a line of its own.
func wrap(text string, width, indent int) string {
	return flow(strings.Fields(text), " ", width+indent, indent, indent)
}
