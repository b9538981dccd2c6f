module grovescale.dev/pause

go 1.24
