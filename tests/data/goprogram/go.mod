module grovescale.io/goprogram

go 1.22
