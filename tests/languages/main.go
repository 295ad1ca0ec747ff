package main

import (
	"encoding/json"
	"fmt"
)

func main() {
	numbers, _ := json.Marshal([]int{3, 1})
	fmt.Println(6*7, "北京", string(numbers))
}
