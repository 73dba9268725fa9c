package capacity

import "math"

// noticeRows returns the rows of notifications: the notifications of likes, reactions,
// comments and follows, the pages of notifications that users read and mark, and the unread
// counts of open live homes. The end of a follow takes its notification back.
func noticeRows(l Load) []Row {
	begins, ends := l.Users*(l.LikesPerDay+l.ReactionsPerDay+l.CommentsPerDay+l.FollowsPerDay), l.Users*l.UnfollowsPerDay
	actions, windows, endings := begins+ends, begins/l.NoticesAWindow, ends/l.NoticesAWindow
	all := []Row{{
		Name: "notifications", Count: actions, Writes: windows*(l.NewNotices*newNoticeWCU+(1-l.NewNotices)*laterNoticeWCU) + endings*endedNoticeWCU,
		Reads:    (windows+endings)*noticeRCU + begins*noticeActorRCU + (l.Users*l.CommentsPerDay+ends)*noticeRecordRCU,
		Messages: actions, Requests: actions * messageRequests / math.Min(requestMessages, l.NoticesAWindow), notices: actions,
		Stored: windows * l.NewNotices * noticeDays * noticeBytes / gigabyte, Index: windows * l.NewNotices * noticeDays * noticeIndexBytes / gigabyte,
	}, flow("notifications: pages", l.Users*l.NoticePagesPerDay, Row{Writes: noticeMarkWCU, Reads: noticePageRCU, Egress: l.PageKB * kilobyte / gigabyte, calls: 1})}
	if open := l.Users * l.Streams; open > 0 {
		all = append(all, Row{Name: "streams: unread", Count: open, Reads: open * unreadStreamRCU * secondsADay})
	}
	return all
}
