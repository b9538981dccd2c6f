// A program whose functions use known shares of its CPU time, and which measures them itself.
//
// Four functions take turns in slices of 0.05 to 0.45 ms, in random order, so that neighbouring samples of a
// profiler say nothing about each other. It serves net/http/pprof on a free port of the loopback, which it writes as
// its first line. On SIGUSR1 it writes a line of JSON: nanoseconds of its thread's CPU clock that each function has
// used, and all of it. It ends when its standard input does.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	_ "net/http/pprof"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"
)

const clockThreadCPU = 3 // CLOCK_THREAD_CPUTIME_ID, linux/time.h

var names = []string{"alpha", "beta", "gamma", "delta"}
var below = []int{60, 85, 95, 100} // cumulative weights: 60, 25, 10, 5
var functions = []func(int64){alpha, beta, gamma, delta}

func threadTime() int64 {
	var t syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockThreadCPU, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano()
}

// Work between two looks at the clock, so that the function's own code is most of what it uses.
func spin(x uint64) uint64 {
	for range 2000 {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return x
}

var sink uint64

//go:noinline
func alpha(until int64) {
	for threadTime() < until {
		sink = spin(sink)
	}
}

//go:noinline
func beta(until int64) {
	for threadTime() < until {
		sink = spin(sink)
	}
}

//go:noinline
func gamma(until int64) {
	for threadTime() < until {
		sink = spin(sink)
	}
}

//go:noinline
func delta(until int64) {
	for threadTime() < until {
		sink = spin(sink)
	}
}

func chosen() int {
	number := rand.Intn(100)
	for index, bound := range below {
		if number < bound {
			return index
		}
	}
	panic("the weights end below 100")
}

func report(used []int64) {
	found := map[string]int64{"all": threadTime()}
	for index, name := range names {
		found[name] = used[index]
	}
	line, err := json.Marshal(found)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

func main() {
	runtime.LockOSThread()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() { panic(http.Serve(listener, nil)) }()
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	var asked atomic.Bool
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	go func() {
		for range signals {
			asked.Store(true)
		}
	}()
	fmt.Println(listener.Addr())
	used := make([]int64, len(names))
	for {
		index := chosen()
		before := threadTime()
		functions[index](before + 50_000 + rand.Int63n(400_000))
		used[index] += threadTime() - before
		if asked.Swap(false) {
			report(used)
		}
	}
}
