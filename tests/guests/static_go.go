// A Go program without libraries. The runtime sends SIGURG to its own threads to preempt them, starts processes with
// clone(CLONE_VFORK), and never goes through a libc: a good test of signals and raw calls.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sort"
	"sync"
	"syscall"
	"time"
)

func spin(n int) int {
	x := 0
	for i := 0; i < n; i++ {
		x += i % 7
	}
	return x
}

func main() {
	fmt.Println("args", len(os.Args), os.Args[1:])
	var group sync.WaitGroup
	var lock sync.Mutex
	sum, failed := 0, 0
	os.Mkdir("g", 0o755)
	for i := 0; i < 50; i++ {
		group.Add(1)
		go func(n int) {
			defer group.Done()
			name := filepath.Join("g", fmt.Sprint(n))
			if os.WriteFile(name, make([]byte, n), 0o644) != nil {
				failed++
			}
			status, err := os.Stat(name)
			spin(2000000)
			lock.Lock()
			defer lock.Unlock()
			if err != nil {
				failed++
			} else {
				sum += int(status.Size())
			}
		}(i)
	}
	group.Wait()
	fmt.Println("sum", sum, "failed", failed)
	for i := 0; i < 20; i++ {
		out, err := exec.Command("/bin/sh", "-c", fmt.Sprintf("echo child %d", i)).Output()
		if err != nil || len(out) == 0 {
			fmt.Println("exec failed", err)
		}
	}
	err := exec.Command("/bin/sh", "-c", "exit 3").Run()
	fmt.Println(err)
	_, err = exec.LookPath("no-such-program")
	fmt.Println(err)
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGUSR1)
	syscall.Kill(os.Getpid(), syscall.SIGUSR1)
	select {
	case s := <-caught:
		fmt.Println("caught", s)
	case <-time.After(60 * time.Second):
		fmt.Println("no signal")
	}
	var names []string
	filepath.Walk("g", func(path string, info os.FileInfo, err error) error {
		names = append(names, path)
		return err
	})
	sort.Strings(names)
	fmt.Println(len(names), names[1], os.RemoveAll("g"))
	_, err = os.Open("none")
	fmt.Println(err, os.IsNotExist(err))
	self, err := os.Executable()
	fmt.Println(filepath.Base(self), err)
	os.Exit(5)
}
