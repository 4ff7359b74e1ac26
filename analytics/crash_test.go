package analytics

// childArg tells the test binary that it is a sink.
const childArg = "hookline-sink-child"

func childMain(args []string) int { return 0 }
