// Package figures counts and prints what comes of a sale: its result, and who waited for whom.
package figures
