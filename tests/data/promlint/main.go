// Prints what Prometheus' own linter, promlint, finds in an exposition in the text format: a line for each, the family
// and the words, with a tab between them.
package main

import (
	"fmt"
	"os"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

func main() {
	problems, err := promlint.New(os.Stdin).Lint()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, problem := range problems {
		fmt.Printf("%s\t%s\n", problem.Metric, problem.Text)
	}
}
