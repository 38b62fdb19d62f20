package main

import (
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// columns is how wide help and findings are.
const columns = 80

// documents is where the pages of this project are.
const documents = "https://github.com/lockmw/go/blob/main/docs/"

// printHelp prints the help of a command. The root lists the global flags, the other commands only say where they are.
func printHelp(cmd *cobra.Command, _ []string) {
	out := cmd.OutOrStdout()
	text := cmd.Long
	if text == "" {
		text = cmd.Short
	}
	usage := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		usage = cmd.CommandPath() + " COMMAND [flags]"
	}
	printf(out, "%s\n\nUsage:\n  %s\n", paragraphs(text), usage)
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
		printf(out, "\nFlags such as --redis, --prefix and --json are listed by lockmw --help.\n")
	} else {
		printf(out, "\nGlobal flags, of every command:\n%s", safe(cmd.PersistentFlags().FlagUsagesWrapped(columns)))
	}
}

// completes has shells complete the values of a flag.
func completes(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // there is no such flag
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

// wrap breaks a text between words so that its lines have at most so many characters, and indents all but the first, whose own
// indentation the caller has subtracted. A longer word has a line of its own.
func wrap(text string, width, indent int) string {
	var b strings.Builder
	used := 0 // of the line
	for word := range strings.FieldsSeq(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case used == 0:
		case used+1+n > width:
			printf(&b, "\n%s", strings.Repeat(" ", indent))
			used = 0
		default:
			printf(&b, " ")
			used++
		}
		printf(&b, "%s", word)
		used += n
	}
	return b.String()
}
