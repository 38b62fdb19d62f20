// Package figures counts and prints the results of a sale, and its longest waits with their holders.
package figures
