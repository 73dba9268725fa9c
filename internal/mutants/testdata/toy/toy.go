// Package toy has mutants that its tests kill, mutants that only its simulation kills, a mutant that hangs,
// some that do not compile, and some that survive.
package toy

// Grown reports whether a person of this age is an adult.
func Grown(age int) bool {
	if age >= 18 {
		return true
	}
	return false
}

// Price returns the price of a number of things, with a discount from ten on.
func Price(n int) int {
	sum := n * 3
	if n > 9 {
		sum -= 5
	}
	return sum
}

// Cheers returns a number of cheers.
func Cheers(n int) string {
	all := ""
	for n > 0 {
		all += "hurrah "
		n--
	}
	return all
}
