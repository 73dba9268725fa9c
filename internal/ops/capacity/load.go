package capacity

import (
	"errors"
	"fmt"
	"math"
)

// Load describes a network of users, and the speed of one CPU.
type Load struct {
	Users     float64 `json:"users"`
	Followers float64 `json:"followers"`
	// The next eight fields count one user's actions in one day.
	PostsPerDay     float64 `json:"posts_per_day"`
	ReadsPerDay     float64 `json:"reads_per_day"`
	LikesPerDay     float64 `json:"likes_per_day"`
	FollowsPerDay   float64 `json:"follows_per_day"`
	UnfollowsPerDay float64 `json:"unfollows_per_day"`
	CommentsPerDay  float64 `json:"comments_per_day"`
	PollsPerDay     float64 `json:"polls_per_day"`
	// KeyedShare is the share of posts with an Idempotency-Key. The Go client sends a key with each post.
	KeyedShare float64 `json:"keyed_share"`
	// DeletedShare is the share of posts that their authors delete.
	DeletedShare float64 `json:"deleted_share"`
	// LikesAWindow is m, the number of likes of one post that a window collects.
	LikesAWindow float64 `json:"likes_a_window"`
	LikesByUser  bool    `json:"likes_by_user"`
	// ReactionsPerDay is the number of a user's reactions in a day, without likes.
	ReactionsPerDay float64 `json:"reactions_per_day"`
	// Notifications is FANFARE_NOTIFICATIONS. NoticesAWindow is the number of actions on one target that a
	// window of the notifier collects. NewNotices is the share of windows that make a new notification.
	// NoticePagesPerDay is the number of pages of notifications that a user reads and marks in a day.
	Notifications     bool    `json:"notifications"`
	NoticesAWindow    float64 `json:"notices_a_window"`
	NewNotices        float64 `json:"new_notices_share"`
	NoticePagesPerDay float64 `json:"notice_pages_per_day"`
	// Streams is the average share of users with an open live home. A user opens a live home
	// OpeningsPerHour times an hour, as phones do.
	Streams         float64 `json:"streams_share"`
	StreamLikes     bool    `json:"stream_likes"`
	OpeningsPerHour float64 `json:"openings_per_hour"`
	// AwayShare is the share of away users, and also the share of deliveries that fan-out
	// skips. PulledShare is the share of deliveries whose authors are pulled.
	AwayShare   float64 `json:"away_share"`
	PulledShare float64 `json:"pulled_share"`
	// PulledPosts is the number of posts that a pulled author makes in a day. If authors
	// make more posts, a home has to read fewer pulled authors.
	PulledPosts float64 `json:"pulled_posts_per_day"`
	// ActiveDays is FANFARE_ACTIVE_DAYS. ReturnsPerDay is the number of times that an away
	// user returns in a day.
	ActiveDays    float64 `json:"active_days"`
	ReturnsPerDay float64 `json:"returns_per_day"`
	TimelineDays  float64 `json:"timeline_days"`
	KeptDays      float64 `json:"kept_days"`
	// Peak is the ratio of the load in the busiest second to the average load.
	Peak float64 `json:"peak"`
	// LargestAuthor is the number of followers of the largest author, and PushLimit is FANFARE_PUSH_LIMIT.
	// The next three fields are the calls for one post or one author in the busiest second.
	LargestAuthor float64 `json:"largest_author"`
	PushLimit     float64 `json:"push_limit"`
	HotLikes      float64 `json:"hot_likes_per_s"`
	HotComments   float64 `json:"hot_comments_per_s"`
	HotFollows    float64 `json:"hot_follows_per_s"`
	// FailingShare is the share of messages whose work fails. SQS then hides these messages.
	FailingShare float64 `json:"failing_share"`
	// PageKB is the size of a home page on the wire, in kilobytes.
	PageKB float64 `json:"page_kb"`
	// The next three fields are the work of one CPU-second. Utilisation is the maximum
	// share of a CPU that is used at the peak.
	DeliveriesPerCPU float64 `json:"deliveries_per_cpu_second"`
	RequestsPerCPU   float64 `json:"requests_per_cpu_second"`
	LikesPerCPU      float64 `json:"likes_per_cpu_second"`
	Utilisation      float64 `json:"utilisation"`
}

// DefaultLoad returns the load of a network of a million users.
func DefaultLoad() Load {
	return Load{
		Users: 1e6, Followers: 100, PostsPerDay: 1, ReadsPerDay: 10, LikesPerDay: 5, FollowsPerDay: 1. / 7, UnfollowsPerDay: 0.2 / 7,
		CommentsPerDay: 0.2, KeyedShare: 1, DeletedShare: 0.01, LikesAWindow: 1, LikesByUser: true, NoticesAWindow: 1, NewNotices: 0.5, NoticePagesPerDay: 1, StreamLikes: true, OpeningsPerHour: 4,
		PulledPosts: 10, ActiveDays: 14, ReturnsPerDay: 0.02, TimelineDays: 30, KeptDays: 365, Peak: 3, PageKB: 12,
		DeliveriesPerCPU: 200_000, RequestsPerCPU: 2000, LikesPerCPU: 5000, Utilisation: 0.5,
	}
}

// Setting is a number that a flag sets, with the minimum and the maximum useful value. These
// bounds keep each sum of an estimate finite.
type Setting struct {
	Name        string
	Value       *float64
	least, most float64
	Usage       string
}

const (
	most     = 1e6  // the maximum number of a user's actions in a day, and of similar settings
	mostMany = 1e11 // the maximum number of users of a network, and of similar settings
	tiny     = 1e-9 // the minimum value above 0
)

// Settings returns the numbers of l that flags set.
func (l *Load) Settings() []Setting {
	return append([]Setting{
		{"users", &l.Users, 1, mostMany, "users"},
		{"followers", &l.Followers, 0, mostMany, "average followers of a user, and as many followees"},
		{"posts-per-day", &l.PostsPerDay, 0, most, "posts of a user in a day"},
		{"reads-per-day", &l.ReadsPerDay, 0, most, "home pages that a user reads in a day"},
		{"likes-per-day", &l.LikesPerDay, 0, most, "likes of a user in a day"},
		{"follows-per-day", &l.FollowsPerDay, 0, most, "follows of a user in a day"},
		{"unfollows-per-day", &l.UnfollowsPerDay, 0, most, "unfollows of a user in a day"},
		{"comments-per-day", &l.CommentsPerDay, 0, most, "comments of a user in a day"},
		{"polls-per-day", &l.PollsPerDay, 0, most, "polls of a home with after that find nothing, of a user in a day"},
		{"keyed-share", &l.KeyedShare, 0, 1, "share of posts with an Idempotency-Key, from 0 to 1: the Go client always sends one"},
		{"deleted-share", &l.DeletedShare, 0, 1, "share of posts that their authors delete, from 0 to 1"},
		{"likes-a-window", &l.LikesAWindow, 1, most, "likes of one post that one window collects"},
		{"reactions-per-day", &l.ReactionsPerDay, 0, most, "reactions of a user in a day that are no likes"},
		{"notices-a-window", &l.NoticesAWindow, 1, most, "actions on one target that one window of the notifier collects"},
		{"new-notices", &l.NewNotices, 0, 1, "share of these windows that make a new notification, from 0 to 1: each other window changes one"},
		{"notice-pages-per-day", &l.NoticePagesPerDay, 0, most, "pages of notifications that a user reads and marks in a day"},
		{"streams", &l.Streams, 0, 1, "share of the users with a live home open, from 0 to 1"},
		{"openings-per-hour", &l.OpeningsPerHour, 0, 3600, "how often an hour an open live home is opened again"},
		{"away-share", &l.AwayShare, 0, 1, "away users, and deliveries that are skipped, from 0 to 1"},
		{"pulled-share", &l.PulledShare, 0, 1, "deliveries whose authors are pulled, from 0 to 1 (FANFARE_PUSH_LIMIT)"},
		{"pulled-posts-per-day", &l.PulledPosts, tiny, most, "posts of a pulled author in a day"},
		{"active-days", &l.ActiveDays, 2, 36_500, "days that an edge is dated ahead, if users are away (FANFARE_ACTIVE_DAYS)"},
		{"returns-per-day", &l.ReturnsPerDay, 0, most, "returns of an away user in a day"},
		{"timeline-days", &l.TimelineDays, 0, 36_500, "days that an entry stays in a timeline (FANFARE_TIMELINE_TTL)"},
		{"kept-days", &l.KeptDays, 0, 36_500, "days that posts, likes and comments are kept"},
	}, l.busiest()...)
}

// busiest returns the settings of the busiest second and of the machines.
func (l *Load) busiest() []Setting {
	return []Setting{
		{"peak", &l.Peak, 1, 1000, "the busiest second divided by the average one"},
		{"largest-author", &l.LargestAuthor, 0, mostMany, "followers of the author with most"},
		{"push-limit", &l.PushLimit, 0, mostMany, "FANFARE_PUSH_LIMIT: an author with more followers is pulled (0: none)"},
		{"hot-likes", &l.HotLikes, 0, mostMany, "likes of one post in its busiest second"},
		{"hot-comments", &l.HotComments, 0, mostMany, "comments of one post in its busiest second"},
		{"hot-follows", &l.HotFollows, 0, mostMany, "follows of one author in the busiest second"},
		{"failing-share", &l.FailingShare, 0, 1, "share of the messages whose work fails, from 0 to 1"},
		{"page-kb", &l.PageKB, 0, most, "KB of a home page on the wire"},
		{"deliveries-per-cpu-second", &l.DeliveriesPerCPU, 1, 1e12, "deliveries of a fan-out worker per CPU-second (T3)"},
		{"requests-per-cpu-second", &l.RequestsPerCPU, 1, 1e12, "HTTP requests that an API process answers per CPU-second"},
		{"likes-per-cpu-second", &l.LikesPerCPU, 1, 1e12, "likes that an aggregator counts per CPU-second"},
		{"utilisation", &l.Utilisation, 0.01, 1, "how busy a CPU may be at the peak, from 0.01 to 1"},
	}
}

// Check returns an error for each impossible value of l.
func (l Load) Check() error {
	faults := checkAll(l.Settings())
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	if l.Followers > l.Users-1 {
		faults = append(faults, fmt.Errorf("--followers: %s followers need more than the %s users of --users", Number(l.Followers), Number(l.Users)))
	}
	if l.LargestAuthor > l.Users-1 {
		faults = append(faults, fmt.Errorf("--largest-author: %s followers need more than the %s users of --users", Number(l.LargestAuthor), Number(l.Users)))
	}
	if l.LargestAuthor > 0 && l.LargestAuthor < l.Followers {
		faults = append(faults, fmt.Errorf("--largest-author: the author with most followers cannot have fewer than the %s of --followers", Number(l.Followers)))
	}
	return errors.Join(faults...)
}

func checkAll(all []Setting) (faults []error) {
	for _, s := range all {
		switch v := *s.Value; {
		case math.IsNaN(v):
			faults = append(faults, fmt.Errorf("--%s: NaN is no number", s.Name))
		case v < s.least || v > s.most:
			faults = append(faults, fmt.Errorf("--%s: %v is not from %v to %v", s.Name, v, s.least, s.most))
		}
	}
	return faults
}

// recordDays returns the number of days for which a delivery record is kept.
func (l Load) recordDays() float64 { return l.TimelineDays + recordKeptDays }
