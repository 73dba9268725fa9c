"""Posts to Fanfare and likes the post, with nothing but boto3 and SQS.

    python producer.py --author ann --fan bob --text "Hello from Python"

It prints the id of the post. boto3's own environment says where SQS is. The schemas of the events are
in messages/schema, and docs/PRODUCERS.md has the rules.
"""

import argparse
import datetime
import json
import os
import secrets
import time

import boto3

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
last = 0


def new_id():
    """Returns a ULID above all others of this process: 48 bits of milliseconds, then 80 random ones."""
    global last
    last = max(time.time_ns() // 1_000_000 << 80 | secrets.randbits(80), last + 1)
    return "".join(ALPHABET[last >> shift & 31] for shift in range(125, -1, -5))


def event(kind, **fields):
    now = datetime.datetime.now(datetime.timezone.utc).isoformat()
    return {"type": kind, "version": 1, "event_id": new_id(), "time": now, **fields}


def send(sqs, queue, group, event):
    """Sends an event. After an error it may be called again with the same event: it is applied once."""
    text = lambda value: {"DataType": "String", "StringValue": value}
    sqs.send_message(
        QueueUrl=sqs.get_queue_url(QueueName=queue)["QueueUrl"],
        MessageBody=json.dumps(event),  # ASCII escapes, so that SQS accepts every character
        MessageGroupId=group,
        MessageAttributes={"_watermill_message_uuid": text(event["event_id"]), "group": text(group)},
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--prefix", default="fanfare", help="FANFARE_QUEUE_PREFIX of the daemons")
    parser.add_argument("--author", default="ann")
    parser.add_argument("--fan", default="bob")
    parser.add_argument("--text", default="Hello from Python")
    args = parser.parse_args()
    # boto3 reads AWS_DEFAULT_REGION, and the SDKs of other languages read AWS_REGION.
    sqs = boto3.client("sqs", region_name=os.environ.get("AWS_REGION"))
    post = event("PostCreated", post_id=new_id(), author_id=args.author, text=args.text)
    send(sqs, args.prefix + "-posts", args.author, post)
    like = event("Liked", post_id=post["post_id"], user_id=args.fan)
    send(sqs, args.prefix + "-likes", post["post_id"], like)
    print(post["post_id"])


if __name__ == "__main__":
    main()
