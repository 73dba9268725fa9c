package capacity

import "math"

// noticeRows returns the rows of notifications: the notifications of likes, reactions,
// comments and follows, the pages of notifications that users read and mark, and the unread
// counts of open live homes.
func noticeRows(l Load) []Row {
	actions := l.Users * (l.LikesPerDay + l.ReactionsPerDay + l.CommentsPerDay + l.FollowsPerDay)
	windows := actions / l.NoticesAWindow
	made := Row{
		Name: RowNotices, Count: actions, Writes: windows * (l.NewNotices*newNoticeWCU + (1-l.NewNotices)*laterNoticeWCU),
		Reads:    windows*noticeRCU + actions*noticeActorRCU + l.Users*l.CommentsPerDay*noticeCommentRCU,
		Messages: actions, Requests: actions * messageRequests / math.Min(requestMessages, l.NoticesAWindow),
		Stored: windows * l.NewNotices * noticeDays * noticeBytes / gigabyte, Index: windows * l.NewNotices * noticeDays * noticeIndexBytes / gigabyte,
		fanout: actions / l.LikesPerCPU,
	}
	pages := l.single(RowNoticed, l.NoticePagesPerDay, Row{Writes: noticeMarkWCU, Reads: noticePageRCU, Egress: l.PageKB * kilobyte / gigabyte})
	all := []Row{made, pages}
	if open := l.Users * l.Streams; open > 0 {
		all = append(all, Row{Name: RowUnread, Count: open, Reads: open * unreadStreamRCU * secondsADay})
	}
	return all
}
