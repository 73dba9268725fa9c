package capacity

import (
	"errors"
	"fmt"
	"math"
	"reflect"
)

// Load describes a network of users, and the speed of one CPU. The tag flag of a number has the name of its
// flag, the default, the minimum and the maximum useful value, and the tag help has its meaning. The bounds
// keep each sum of an estimate finite. The defaults describe a network of a million users.
type Load struct {
	Users           float64 `json:"users" flag:"users 1e6 1 1e11" help:"users"`
	Followers       float64 `json:"followers" flag:"followers 100 0 1e11" help:"average followers of a user, and as many followees"`
	PostsPerDay     float64 `json:"posts_per_day" flag:"posts-per-day 1 0 1e6" help:"posts of a user in a day"`
	ReadsPerDay     float64 `json:"reads_per_day" flag:"reads-per-day 10 0 1e6" help:"home pages that a user reads in a day"`
	LikesPerDay     float64 `json:"likes_per_day" flag:"likes-per-day 5 0 1e6" help:"likes of a user in a day"`
	FollowsPerDay   float64 `json:"follows_per_day" flag:"follows-per-day 0.142857142857142857 0 1e6" help:"follows of a user in a day"`
	UnfollowsPerDay float64 `json:"unfollows_per_day" flag:"unfollows-per-day 0.0285714285714285714 0 1e6" help:"unfollows of a user in a day"`
	CommentsPerDay  float64 `json:"comments_per_day" flag:"comments-per-day 0.2 0 1e6" help:"comments of a user in a day"`
	PollsPerDay     float64 `json:"polls_per_day" flag:"polls-per-day 0 0 1e6" help:"polls of a home with after that find nothing, of a user in a day"`
	KeyedShare      float64 `json:"keyed_share" flag:"keyed-share 1 0 1" help:"share of posts with an Idempotency-Key, from 0 to 1: the Go client always sends one"`
	DeletedShare    float64 `json:"deleted_share" flag:"deleted-share 0.01 0 1" help:"share of posts that their authors delete, from 0 to 1"`
	LikesAWindow    float64 `json:"likes_a_window" flag:"likes-a-window 1 1 1e6" help:"likes of one post that one window collects"`
	LikesByUser     bool    `json:"likes_by_user"`
	ReactionsPerDay float64 `json:"reactions_per_day" flag:"reactions-per-day 0 0 1e6" help:"reactions of a user in a day that are no likes"`
	// Notifications is FANFARE_NOTIFICATIONS.
	Notifications     bool    `json:"notifications"`
	NoticesAWindow    float64 `json:"notices_a_window" flag:"notices-a-window 1 1 1e6" help:"actions on one target that one window of the notifier collects"`
	NewNotices        float64 `json:"new_notices_share" flag:"new-notices 0.5 0 1" help:"share of these windows that make a new notification, from 0 to 1: each other window changes one"`
	NoticePagesPerDay float64 `json:"notice_pages_per_day" flag:"notice-pages-per-day 1 0 1e6" help:"pages of notifications that a user reads and marks in a day"`
	Streams           float64 `json:"streams_share" flag:"streams 0 0 1" help:"share of the users with a live home open, from 0 to 1"`
	StreamLikes       bool    `json:"stream_likes"`
	OpeningsPerHour   float64 `json:"openings_per_hour" flag:"openings-per-hour 4 0 3600" help:"how often an hour an open live home is opened again"`
	AwayShare         float64 `json:"away_share" flag:"away-share 0 0 1" help:"away users, and deliveries that are skipped, from 0 to 1"`
	PulledShare       float64 `json:"pulled_share" flag:"pulled-share 0 0 1" help:"deliveries whose authors are pulled, from 0 to 1 (FANFARE_PUSH_LIMIT)"`
	// If pulled authors make more posts, a home has to read fewer pulled authors.
	PulledPosts   float64 `json:"pulled_posts_per_day" flag:"pulled-posts-per-day 10 1e-9 1e6" help:"posts of a pulled author in a day"`
	ActiveDays    float64 `json:"active_days" flag:"active-days 14 2 36500" help:"days that an edge is dated ahead, if users are away (FANFARE_ACTIVE_DAYS)"`
	ReturnsPerDay float64 `json:"returns_per_day" flag:"returns-per-day 0.02 0 1e6" help:"returns of an away user in a day"`
	TimelineDays  float64 `json:"timeline_days" flag:"timeline-days 30 0 36500" help:"days that an entry stays in a timeline (FANFARE_TIMELINE_TTL)"`
	KeptDays      float64 `json:"kept_days" flag:"kept-days 365 0 36500" help:"days that posts, likes and comments are kept"`
	Peak          float64 `json:"peak" flag:"peak 3 1 1000" help:"the busiest second divided by the average one"`
	LargestAuthor float64 `json:"largest_author" flag:"largest-author 0 0 1e11" help:"followers of the author with most"`
	PushLimit     float64 `json:"push_limit" flag:"push-limit 0 0 1e11" help:"FANFARE_PUSH_LIMIT: an author with more followers is pulled (0: none)"`
	HotLikes      float64 `json:"hot_likes_per_s" flag:"hot-likes 0 0 1e11" help:"likes of one post in its busiest second"`
	HotComments   float64 `json:"hot_comments_per_s" flag:"hot-comments 0 0 1e11" help:"comments of one post in its busiest second"`
	HotFollows    float64 `json:"hot_follows_per_s" flag:"hot-follows 0 0 1e11" help:"follows of one author in the busiest second"`
	// SQS hides the messages whose work fails.
	FailingShare     float64 `json:"failing_share" flag:"failing-share 0 0 1" help:"share of the messages whose work fails, from 0 to 1"`
	PageKB           float64 `json:"page_kb" flag:"page-kb 12 0 1e6" help:"KB of a home page on the wire"`
	DeliveriesPerCPU float64 `json:"deliveries_per_cpu_second" flag:"deliveries-per-cpu-second 2e5 1 1e12" help:"deliveries of a fan-out worker per CPU-second (T3)"`
	RequestsPerCPU   float64 `json:"requests_per_cpu_second" flag:"requests-per-cpu-second 2000 1 1e12" help:"HTTP requests that an API process answers per CPU-second"`
	LikesPerCPU      float64 `json:"likes_per_cpu_second" flag:"likes-per-cpu-second 5000 1 1e12" help:"likes that an aggregator counts per CPU-second"`
	Utilisation      float64 `json:"utilisation" flag:"utilisation 0.5 0.01 1" help:"how busy a CPU may be at the peak, from 0.01 to 1"`
}

// DefaultLoad returns the load of a network of a million users.
func DefaultLoad() Load {
	l := Load{LikesByUser: true, StreamLikes: true}
	setDefaults(l.Settings())
	return l
}

// Settings returns the numbers of l that flags set.
func (l *Load) Settings() []Setting { return settings(l) }

// Setting is a number that a flag sets, with the minimum and the maximum useful value.
type Setting struct {
	Name               string
	Value              *float64
	Usage              string
	usual, least, most float64
}

// settings returns the numbers of a struct that have the tag flag.
func settings[T any](of *T) (all []Setting) {
	for field, value := range reflect.ValueOf(of).Elem().Fields() {
		if tag := field.Tag.Get("flag"); tag != "" {
			s := Setting{Value: value.Addr().Interface().(*float64), Usage: field.Tag.Get("help")} //nolint:forcetypeassert // the tag is for numbers
			_, _ = fmt.Sscan(tag, &s.Name, &s.usual, &s.least, &s.most)                            // a test reads each tag
			all = append(all, s)
		}
	}
	return all
}

func setDefaults(all []Setting) {
	for _, s := range all {
		*s.Value = s.usual
	}
}

// faults collects the reasons for which values are refused.
type faults []error

func (f *faults) add(wrong bool, format string, args ...any) {
	if wrong {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

func checkAll(all []Setting) (f faults) {
	for _, s := range all {
		v := *s.Value
		f.add(math.IsNaN(v), "--%s: NaN is no number", s.Name)
		f.add(v < s.least || v > s.most, "--%s: %v is not from %v to %v", s.Name, v, s.least, s.most)
	}
	return f
}

// Check returns an error for each impossible value of l.
func (l Load) Check() error {
	f := checkAll(l.Settings())
	if len(f) == 0 {
		f.add(l.Followers > l.Users-1, "--followers: %s followers need more than the %s users of --users", Number(l.Followers), Number(l.Users))
		f.add(l.LargestAuthor > l.Users-1, "--largest-author: %s followers need more than the %s users of --users", Number(l.LargestAuthor), Number(l.Users))
		f.add(l.LargestAuthor > 0 && l.LargestAuthor < l.Followers, "--largest-author: the author with most followers cannot have fewer than the %s of --followers", Number(l.Followers))
	}
	return errors.Join(f...)
}

// recordDays returns the number of days for which a delivery record is kept.
func (l Load) recordDays() float64 { return l.TimelineDays + recordKeptDays }
