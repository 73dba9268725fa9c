package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"fanfare/internal/config"
	"fanfare/internal/daemon"
	"fanfare/internal/objects"
	"fanfare/internal/queue"
	"fanfare/internal/queue/sqs"
	"fanfare/internal/table"
)

// Duties returns the names of duties that PolicyOf accepts: the daemons, the setup (the
// commands table create and queues create) and the operator (the commands doctor, dlq,
// reconcile, explain, delivery, and verify without --repair).
func Duties() []string { return []string{"api", "fanout", "likeagg", dutyUp, "setup", dutyOperator} }

const (
	// dutyUp is fanfare up, whose archive may be in S3.
	dutyUp       = "up"
	dutyOperator = "operator"
	// dutyAuditor is the additional duty of a daemon with FANFARE_AUDIT=on. It has the calls of verify,
	// the calls that end kept blocks, and the send that requests a purge after its event was lost.
	dutyAuditor = "auditor"
)

// withAuditor returns duties, with dutyAuditor added if one of them is a daemon with an auditor.
func withAuditor(cfg config.Config, duties []string) []string {
	daemons := daemon.Roles{API: true, Fanout: true, Likes: true}.Names()
	if bool(cfg.Auditor) && slices.ContainsFunc(duties, func(duty string) bool { return slices.Contains(daemons, duty) }) {
		return append(slices.Clone(duties), dutyAuditor)
	}
	return duties
}

// The resources of a permission. Any other resource is the name of a queue without the prefix.
const (
	theTable = "the table"
	theIndex = "its index"
	// anything stands for the resources of calls that IAM does not restrict to resources.
	anything = "anything"
	// theEvents is the queue of FANFARE_EVENTS_QUEUE, if it is set.
	theEvents = "the queue of events for others"
	// theArchive is the objects of FANFARE_ARCHIVE, and theBucket is their bucket.
	theArchive = "the objects of the archive"
	theBucket  = "the bucket of the archive"
	// theRegister is the objects of FANFARE_REGISTER.
	theRegister        = "the register of the pair"
	theRegistersBucket = "the bucket of the register"
)

// permission is an IAM action that duties need on resources. TransactWriteItems and the
// batches of SQS have no action of their own: AWS checks the actions of the parts of a
// transaction or a batch.
type permission struct {
	action string
	on     []string
	duties []string
}

// permissions returns all AWS calls of the code. A test records a run of each duty, and
// compares the recorded calls with permissions. Examine tries the calls of the daemons.
func permissions() []permission {
	onTable := []string{theTable}
	var dead []string
	for _, topic := range queue.Topics() {
		dead = append(dead, topic+sqs.DeadSuffix)
	}
	queues := slices.Concat(queue.Topics(), dead)
	delivers := []string{queue.TopicPosts, queue.TopicBackfills, queue.TopicChunks, queue.TopicNotices}
	deadOf := func(topics ...string) (out []string) {
		for _, topic := range topics {
			out = append(out, topic+sqs.DeadSuffix)
		}
		return out
	}
	api, fanout, likeagg, setup, operator := "api", "fanout", "likeagg", "setup", dutyOperator
	return []permission{
		{"dynamodb:GetItem", onTable, []string{api, fanout, likeagg, setup, operator}},
		{"dynamodb:BatchGetItem", onTable, []string{api, fanout, likeagg, operator, dutyAuditor}},
		{"dynamodb:Query", onTable, []string{api, fanout, operator, dutyAuditor}},
		{"dynamodb:Query", []string{theIndex}, []string{api, fanout, operator}},
		{"dynamodb:Scan", onTable, []string{setup, operator, dutyAuditor}},
		{"dynamodb:PutItem", onTable, []string{api, fanout, likeagg, setup, dutyAuditor}},
		{"dynamodb:UpdateItem", onTable, []string{api, fanout, likeagg}},
		{"dynamodb:DeleteItem", onTable, []string{api, fanout, dutyAuditor}},
		{"dynamodb:ConditionCheckItem", onTable, []string{api, fanout, operator, dutyAuditor}},
		{"dynamodb:BatchWriteItem", onTable, []string{fanout}},
		{"dynamodb:CreateTable", onTable, []string{setup}},
		{"dynamodb:DescribeTable", onTable, []string{setup, operator}},
		{"dynamodb:DescribeTimeToLive", onTable, []string{setup, operator}},
		{"dynamodb:UpdateTimeToLive", onTable, []string{setup}},
		{"dynamodb:DescribeContinuousBackups", onTable, []string{operator}},
		{"application-autoscaling:DescribeScalableTargets", []string{anything}, []string{operator}},
		{"application-autoscaling:DescribeScalingPolicies", []string{anything}, []string{operator}},
		{"cloudwatch:GetMetricData", []string{anything}, []string{operator}},

		// The readiness check finds the queues of the topics, and the metrics also count dead letters.
		{"sqs:GetQueueUrl", queues, []string{api, fanout, likeagg, setup, operator}},
		{"sqs:GetQueueAttributes", queues, []string{api, fanout, likeagg, setup, operator}},
		{"sqs:CreateQueue", queues, []string{setup}},
		{"sqs:SetQueueAttributes", queues, []string{setup}},
		{"sqs:SendMessage", []string{queue.TopicPosts, queue.TopicBackfills, queue.TopicLikes, queue.TopicNotices}, []string{api}},
		{"sqs:SendMessage", []string{queue.TopicBackfills, queue.TopicLikes}, []string{dutyAuditor}}, // a purge, or a count of a repost, whose event was lost
		// A consumer also sends messages to its own queues: a copy of each waiting message.
		{"sqs:SendMessage", slices.Concat(queue.Topics(), deadOf(delivers...)), []string{fanout}},
		{"sqs:GetQueueUrl", []string{theEvents}, []string{fanout, likeagg, dutyUp}},
		{"sqs:SendMessage", []string{theEvents}, []string{fanout, likeagg, dutyUp}},
		{"s3:PutObject", []string{theArchive}, []string{dutyUp}},
		{"s3:GetObject", []string{theArchive}, []string{dutyUp}},
		{"s3:DeleteObject", []string{theArchive}, []string{dutyUp}}, // retention
		{"s3:ListBucket", []string{theBucket}, []string{dutyUp}},
		{"s3:PutObject", []string{theRegister}, []string{dutyUp}},
		{"s3:GetObject", []string{theRegister}, []string{dutyUp}},
		{"s3:DeleteObject", []string{theRegister}, []string{dutyUp}},      // the doctor's object
		{"s3:ListBucket", []string{theRegistersBucket}, []string{dutyUp}}, // without it S3 answers 403 for a missing object
		{"sqs:SendMessage", slices.Concat([]string{queue.TopicLikes, queue.TopicNotices}, deadOf(queue.TopicLikes)), []string{likeagg}},
		{"sqs:SendMessage", queue.Topics(), []string{operator}},
		{"sqs:ReceiveMessage", delivers, []string{fanout}},
		{"sqs:ReceiveMessage", []string{queue.TopicLikes}, []string{likeagg}},
		{"sqs:ReceiveMessage", dead, []string{operator}},
		{"sqs:DeleteMessage", delivers, []string{fanout}},
		{"sqs:DeleteMessage", []string{queue.TopicLikes}, []string{likeagg}},
		{"sqs:DeleteMessage", dead, []string{operator}},
		{"sqs:ChangeMessageVisibility", delivers, []string{fanout}},
		{"sqs:ChangeMessageVisibility", []string{queue.TopicLikes}, []string{likeagg}},
		{"sqs:ChangeMessageVisibility", dead, []string{operator}},
	}
}

// Account is the place of the table and the queues in AWS. An empty field stands for any value.
type Account struct{ Partition, Region, ID string }

// Policy is a policy document of IAM.
type Policy struct {
	Version   string      `json:"Version"`   //nolint:tagliatelle // IAM's names
	Statement []Statement `json:"Statement"` //nolint:tagliatelle // IAM's names
}

// Statement allows each of its actions on each of its resources.
type Statement struct {
	Effect   string   `json:"Effect"`   //nolint:tagliatelle // IAM's names
	Action   []string `json:"Action"`   //nolint:tagliatelle // IAM's names
	Resource []string `json:"Resource"` //nolint:tagliatelle // IAM's names
}

// PolicyOf returns exactly the permissions that the named duties need, on the table and
// the queues of a configuration.
func PolicyOf(cfg config.Config, at Account, duties ...string) (Policy, error) {
	if len(duties) == 0 {
		return Policy{}, errors.New("name at least one of " + strings.Join(Duties(), ", "))
	}
	for _, duty := range duties {
		if !slices.Contains(Duties(), duty) {
			return Policy{}, fmt.Errorf("%q is not one of %s", duty, strings.Join(Duties(), ", "))
		}
	}
	duties = withAuditor(cfg, duties)
	// Actions with the same resources share one statement.
	on := map[string][]string{} // the resources of each action
	var actions []string        // the actions in the order of permissions
	for _, p := range permissions() {
		if slices.ContainsFunc(p.duties, func(duty string) bool { return slices.Contains(duties, duty) }) {
			for _, resource := range p.on {
				if !has(cfg, resource) {
					continue
				}
				if on[p.action] == nil {
					actions = append(actions, p.action)
				}
				if arn := at.arn(cfg, resource); !slices.Contains(on[p.action], arn) {
					on[p.action] = append(on[p.action], arn)
				}
			}
		}
	}
	if len(actions) == 0 {
		return Policy{}, errors.New("up calls AWS only with FANFARE_ARCHIVE=s3://bucket/prefix, FANFARE_REGISTER or FANFARE_EVENTS_QUEUE: set one of them")
	}
	policy := Policy{Version: "2012-10-17"}
	for _, action := range actions {
		slices.Sort(on[action])
		same := slices.IndexFunc(policy.Statement, func(s Statement) bool {
			return slices.Equal(s.Resource, on[action])
		})
		if same < 0 {
			policy.Statement = append(policy.Statement, Statement{Effect: "Allow", Resource: on[action]})
			same = len(policy.Statement) - 1
		}
		policy.Statement[same].Action = append(policy.Statement[same].Action, action)
	}
	return policy, nil
}

// has reports whether a configuration has a resource.
func has(cfg config.Config, resource string) bool {
	switch resource {
	case theEvents:
		return cfg.EventsQueue != ""
	case theArchive, theBucket:
		return strings.HasPrefix(cfg.Archive, "s3:")
	case theRegister, theRegistersBucket:
		return cfg.Register != ""
	}
	return true
}

// arn returns the ARN of a resource.
func (a Account) arn(cfg config.Config, resource string) string {
	place := func(service string) string {
		return fmt.Sprintf("arn:%s:%s:%s:%s:", cmp.Or(a.Partition, "aws"), service, cmp.Or(a.Region, "*"), cmp.Or(a.ID, "*"))
	}
	switch resource {
	case anything:
		return "*"
	case theTable:
		return place("dynamodb") + "table/" + cfg.Table
	case theIndex:
		return place("dynamodb") + "table/" + cfg.Table + "/index/" + table.IndexName
	case theEvents:
		return place("sqs") + cfg.EventsQueue
	case theArchive, theBucket, theRegister, theRegistersBucket:
		address := cfg.Archive
		if resource == theRegister || resource == theRegistersBucket {
			address = cfg.Register
		}
		at, err := objects.Parse(address)
		if err != nil { // config has checked the address
			return ""
		}
		bucket := fmt.Sprintf("arn:%s:s3:::%s", cmp.Or(a.Partition, "aws"), at.Bucket)
		if resource == theBucket || resource == theRegistersBucket {
			return bucket
		}
		return bucket + "/" + path.Join(at.Prefix, "*")
	default:
		return place("sqs") + cfg.QueuePrefix + "-" + resource
	}
}

// need reports whether one of duties makes the call action on resource.
func need(duties []string, action, resource string) bool {
	return slices.ContainsFunc(permissions(), func(p permission) bool {
		return p.action == action && slices.Contains(p.on, resource) &&
			slices.ContainsFunc(duties, func(duty string) bool { return slices.Contains(p.duties, duty) })
	})
}
