package main

import "strings"

// demoUser is a person of the demo. The avatar and the pictures of posts are names of files in internal/console/pictures.
type demoUser struct {
	id, name, bio, avatar string
	follows               []string
	posts                 []demoPost
}

type demoPost struct {
	text     string
	pictures []string
}

// demoUsers returns the people with names, with their follows and posts.
func demoUsers() []demoUser {
	return []demoUser{
		{"ada", "Ada Lovelace", "Notes on the Analytical Engine.", "ada", []string{"grace", "alan", "katherine"}, []demoPost{
			{"The Analytical Engine weaves algebraic patterns, just as the loom weaves flowers and leaves.", []string{"loom"}},
			{"Note G is done. It computes Bernoulli numbers.", nil},
		}},
		{"grace", "Grace Hopper", "Compilers, and nanoseconds of wire.", "grace", []string{"ada", "margaret"}, []demoPost{
			{"Found a moth in relay 70, panel F. Taped it into the log book.", []string{"moth"}},
			{"A ship in port is safe, but that is not what ships are for.", nil},
		}},
		{"alan", "Alan Turing", "Machines that may think.", "alan", []string{"ada", "grace", "katherine"}, []demoPost{
			{"We can only see a short distance ahead, but we can see plenty there that needs to be done.", nil},
		}},
		{"katherine", "Katherine Johnson", "Trajectories, checked by hand.", "katherine", []string{"margaret", "ada"}, []demoPost{
			{"The computer's numbers agree with mine. You can go.", []string{"orbit"}},
		}},
		{"margaret", "Margaret Hamilton", "Software that must not fail.", "margaret", []string{"grace", "katherine", "ada"}, []demoPost{
			{"1202 is only the computer saying it drops what matters less. Go on.", nil},
			{"There was no second chance. We all knew that.", nil},
		}},
	}
}

// demoSuggested returns the ids of users that the console suggests.
func demoSuggested() []string {
	var ids []string
	for _, u := range demoUsers() {
		ids = append(ids, u.id)
	}
	return append(ids, demoWriter(0).id, demoWriter(1).id)
}

// demoPerson returns the person with the number i in the crowd. Two of three have an avatar.
func demoPerson(i int) demoUser {
	first := strings.Fields("Nora Jonas Mira Elias Aiko Samir Lena Tomas Ines Kofi Freya Diego Priya Oskar Yara Milan Zoe Amir Clara Noah")
	last := strings.Fields("Lind Okafor Novak Silva Meyer Haddad Rossi Larsen Tanaka Costa Patel Berg Moreau Kowal Ruiz")
	f, l := first[i%len(first)], last[(i%len(first)+i/len(first))%len(last)]
	avatar := []string{"kingfisher", "", "cat", "sail", "", "tomato", "piano", "", "buns"}[i%9]
	return demoUser{id: strings.ToLower(f + "-" + l), name: f + " " + l, avatar: avatar}
}

// demoWriter returns the writer with the number i in the crowd.
func demoWriter(i int) demoUser { return demoPerson(i*10 + i*7%10) }

// demoText returns a post of the crowd.
func demoText(n int) demoPost {
	posts := []demoPost{
		{"Rain on the roof, tea in the cup, tests are green.", nil}, {"Does anybody have a good book about bridges?", nil},
		{"Deleted 400 lines today. Best day this week.", nil}, {"The bakery on the corner has cardamom buns again.", []string{"buns"}},
		{"Reading a paper about queues while standing in one.", nil}, {"First tomato of the year. It is very small.", []string{"tomato"}},
		{"Wrote it down, and then it was simple.", nil}, {"The train was on time. I was not.", nil},
		{"Moved the desk to the window. Should have done that years ago.", nil}, {"It was the cache. It is always the cache.", nil},
		{"Somebody left a piano at the station, and somebody plays it.", []string{"piano"}}, {"Two hours for one missing comma.", nil},
		{"Choir tonight. We are almost in tune.", nil}, {"Learning to sail: mostly learning to wait.", []string{"sail"}},
		{"The cat has found the warm router.", []string{"cat"}}, {"Bread is rising. So are hopes.", nil},
		{"A good error message is a kindness.", nil}, {"Saw a kingfisher on the way to work.", []string{"kingfisher"}},
		{"", []string{"cat"}}, {"Harbour and market, before breakfast.", []string{"sail", "tomato"}},
		{"A whole Sunday.", []string{"kingfisher", "sail", "buns", "piano"}},
	}
	return posts[n%len(posts)]
}

// demoAlt describes a picture of the demo for people who do not see the picture.
func demoAlt(name string) string {
	return map[string]string{
		"buns":       "Four cardamom buns on a baking tray",
		"cat":        "A ginger cat asleep on a router",
		"kingfisher": "A kingfisher on a branch above the water",
		"loom":       "A punched card in a loom",
		"moth":       "A moth taped into a log book",
		"orbit":      "The path of a capsule around the Earth and the Moon",
		"piano":      "A piano with a sheet of music in front of three windows",
		"sail":       "A small boat with a red and a white sail",
		"tomato":     "A red tomato",
	}[name]
}
