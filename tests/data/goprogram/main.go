// A program to be profiled: it works in two functions whose shares are known, and serves net/http/pprof.
//
// It prints the address that it listens on. -mode makes its profile endpoint misbehave as real ones do.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"hash/crc32"
	"math/big"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"strconv"
	"time"
)

var (
	mode     = flag.String("mode", "", "what is wrong with the profile endpoint: not-found, broken, never, slow")
	token    = flag.String("token", "", "bearer token that every request must carry")
	secure   = flag.Bool("tls", false, "serve over TLS with HTTP/2, and print the certificate to standard error")
	share    = flag.Float64("share", 0.75, "part of the work that is spent in heavy; the rest is in light")
	resting  = flag.Bool("resting", false, "do no work: serve profiles only")
	sink     uint32
	released = make(chan struct{})
)

//go:noinline
func heavy(block []byte) uint32 { return crc32.ChecksumIEEE(block) }

//go:noinline
func light(block []byte) uint32 { return crc32.ChecksumIEEE(block) }

// work checksums a block again and again, in the two functions by turns as -share says.
func work() {
	block, owed := make([]byte, 1<<16), 0.0
	for {
		if owed += *share; owed >= 1 {
			owed--
			sink += heavy(block)
		} else {
			sink += light(block)
		}
	}
}

func profile(response http.ResponseWriter, request *http.Request) {
	switch *mode {
	case "not-found":
		http.NotFound(response, request)
	case "broken":
		http.Error(response, "the profiler is out of order", http.StatusInternalServerError)
	case "never":
		<-released
	case "slow":
		<-request.Context().Done()
		response.Header().Set("Content-Type", "application/octet-stream")
		for {
			if _, err := response.Write([]byte{0x1f}); err != nil {
				return
			}
			response.(http.Flusher).Flush()
			time.Sleep(100 * time.Millisecond)
		}
	default:
		pprof.Profile(response, request)
	}
}

func handler() http.Handler {
	served := http.NewServeMux()
	served.HandleFunc("/debug/pprof/", pprof.Index)
	served.HandleFunc("/debug/pprof/profile", profile)
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if *token != "" && request.Header.Get("Authorization") != "Bearer "+*token {
			http.Error(response, "who are you?", http.StatusUnauthorized)
			return
		}
		served.ServeHTTP(response, request)
	})
}

func certificate() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:         true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	_ = pem.Encode(os.Stderr, &pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func main() {
	host := flag.String("host", "127.0.0.1", "address to listen on")
	port := flag.Int("port", 0, "port to listen on; 0: a free one")
	timeout := flag.Duration("write-timeout", 0, "the server's WriteTimeout")
	flag.Parse()
	listener, err := net.Listen("tcp", net.JoinHostPort(*host, strconv.Itoa(*port)))
	if err != nil {
		panic(err)
	}
	server := &http.Server{Handler: handler(), WriteTimeout: *timeout}
	scheme := "http"
	if *secure {
		scheme = "https"
		server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate()}}
	}
	if !*resting {
		go work()
	}
	runWorkers()
	fmt.Printf("%s://%s\n", scheme, listener.Addr())
	if *secure {
		err = server.ServeTLS(listener, "", "")
	} else {
		err = server.Serve(listener)
	}
	panic(err)
}
