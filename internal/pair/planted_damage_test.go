package pair_test

import "fanfare/internal/planttest"

const refusedClone = "a clone that is refused takes over"

// bugsOfDamage returns the bugs that serve from damaged disks, or that let a copy of a disk take the place of its original.
func bugsOfDamage() map[string]plantedBug {
	const (
		list, begin, accepting = "internal/pair/tailneeds.go", "internal/pair/begin.go", "internal/pair/accepting.go"
		role                   = "internal/pair/role.go"
		copies, table          = "TestCopiesOfAPairInAStorm", "TestEachDamageOfAPairIsNamedOrHarmless"
	)
	return map[string]plantedBug{
		"a lost file of a tail is not looked for": {
			planttest.Edit{File: list, Old: "		case !is:\n			return", New: "		case !is && number == list.next():\n			return"},
			table, "Not equal",
		},
		"the content of a file of a tail is not compared": {
			planttest.Edit{File: list, Old: "		case want.Bytes > 0 && got != want:", New: "		case want.Bytes > got.Bytes:"},
			table, "in silence",
		},
		"a tail confirms before its list": {
			planttest.Edit{File: "internal/pair/tail.go", Old: "	if err := t.enlist(); err != nil {\n		return stream.Position{}, err\n	}\n", New: ""},
			"TestTheListOfATailSurvivesACrash", "NEEDS: ",
		},
		"a trimmed file of a tail stays in the list": {
			planttest.Edit{File: "internal/pair/tailtrim.go", Old: "	err := t.list(true)\n	t.listing.Unlock()\n", New: "	err := error(nil)\n	t.listing.Unlock()\n"},
			"TestTheListOfATailSurvivesACrash", "is absent",
		},
		"an ordered end counts no bytes of a failed write": {
			planttest.Edit{File: list, Old: "t.list(t.disk.Torn())", New: "t.list(false)"},
			"TestATailEndsInOrderAfterAFailure", "a sound disk is refused",
		},
		"a new log is not in the list of its store": {
			planttest.Edit{File: "internal/disk/keeper.go", Old: "k.logs, k.list.Logs = append(k.logs, f), append(k.list.Logs, needed{Name: f.name})", New: "k.logs = append(k.logs, f)"},
			"TestAPairWithDamagedDisksInAStorm", "was answered",
		},
		"a damaged log is sent": {
			planttest.Edit{File: "internal/follow/open.go", Old: "		if err := disk.CompareLogs(s.FS, dir); err != nil {", New: "		if err := disk.CompareLogs(s.FS, dir); err != nil && dir == \"\" {"},
			"TestADamagedLogIsNotSent", "in chain but got nil",
		},
		"a damaged log claims a term": {
			planttest.Edit{File: begin, Old: "	if err := b.Role.compare(b.stores); err != nil {", New: "	if err := b.Role.compare(b.stores); err != nil && ctx == nil {"},
			"TestADamagedLogClaimsNothing", "in chain but got nil",
		},
		"a standby without a tail is promoted": {
			planttest.Edit{File: "internal/pair/standby.go", Old: "	return s.apply != nil && s.apply.tail.end() == (stream.Position{}) || ", New: "	return "},
			"TestAStandbyWithoutATailIsNotPromoted", "in chain but got nil",
		},
		"a copy of a primary takes the register": {
			planttest.Edit{File: begin, Old: "	if err := b.alike(soon); err != nil {", New: "	if err := b.alike(soon); err != nil && ctx == nil {"},
			"TestACopyOfADataDirectoryIsNamed", "FAIL",
		},
		"a clone of a primary takes the register": {
			planttest.Edit{File: begin, Old: "	if done, err := b.twin(soon, entry); done || err != nil {", New: "	if done, err := b.twin(soon, entry); done && err == nil {"},
			copies, "a copy",
		},
		"a clone of a standby takes the session": {
			planttest.Edit{File: accepting, Old: "p.session.peer.Process != peer.Process:", New: "p.session.peer.Process == \"\":"},
			"TestASecondProcessOfAStandbyIsRefused", "does not contain",
		},
		"a clone of a standby is the first to connect": {
			planttest.Edit{File: accepting, Old: "		return errSoon\n", New: "		break\n"},
			copies, "FAIL",
		},
		refusedClone: {
			planttest.Edit{File: "internal/pair/following.go", Old: "	if peer.Role == RolePrimary { // a primary", New: "	if peer.Role == \"\" { // a primary"},
			copies, "a copy",
		},
		"a standby that has forgotten is paired": {
			planttest.Edit{File: accepting, Old: " && !peer.position().Covers(p.acked):", New: " && !peer.position().Covers(p.acked) && p.reason != nil:"},
			"TestAStandbyThatHasForgottenIsRefused", "the condition does not hold",
		},
		"a copy of the files starts": {
			planttest.Edit{File: role, Old: "	if r.likeness() == datadir.Copied {", New: "	if r.likeness() == datadir.Copied && r.Disk == \"\" {"},
			"TestACopyOfTheFilesIsRefused", "FAIL",
		},
		"a changed role is taken": {
			planttest.Edit{File: role, Old: "strictjson.UnmarshalSummed(text, r)", New: "strictjson.Unmarshal(text, r)"},
			table, "a changed role",
		},
		"a changed register is taken": {
			planttest.Edit{File: "internal/pair/register.go", Old: "strictjson.UnmarshalSummed(text, &e)", New: "strictjson.Unmarshal(text, &e)"},
			table, "a changed entry",
		},
	}
}
