module example.com/known_shares

go 1.24
