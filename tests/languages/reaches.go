package main

import (
	"fmt"
	"io"
	"net/http"
)

func main() {
	answer, err := http.Get("http://plain.test/")
	if err != nil {
		panic(err)
	}
	body, _ := io.ReadAll(answer.Body)
	fmt.Print(string(body))
	if _, err = http.Get("http://evil.test/"); err != nil {
		fmt.Println("not evil")
	}
}
