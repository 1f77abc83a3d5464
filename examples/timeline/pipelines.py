"""The social timeline: what the people I follow have posted, kept up to date while posts and follows change.

    HEADWATER_BOOTSTRAP=… TIMELINE_POSTGRES=postgresql://… TIMELINE_REDIS=redis://… \
        headwater run examples/timeline/pipelines.py

Two tables change: `social.posts` (written, edited, deleted) and `social.follows` (begun, ended). Their join
is kept twice: in PostgreSQL for every question, and in Redis as one sorted set for each reader, newest last.
Whether somebody posts to a million followers or follows a thousand authors, only the rows that this
touches are written.
"""

import os

import headwater as hw


def posts():
    return hw.table(
        "social.posts",
        schema="id BIGINT, author STRING, text STRING, posted_at TIMESTAMP",
        key="id",
    )


def follows():
    return hw.table(
        "social.follows", schema="follower STRING, author STRING", key=["follower", "author"]
    )


def of_everybody():
    both = follows().join(posts(), "author")
    return both.select("follower", both.id.alias("post"), "author", "text", "posted_at")


@hw.view(
    "timeline",
    key=["follower", "post"],
    to=os.environ.get("TIMELINE_POSTGRES", "postgresql://localhost/social"),
)
def timeline():
    return of_everybody()


@hw.view(
    "timeline_of",
    key=["follower", "post"],
    to=os.environ.get("TIMELINE_REDIS", "redis://localhost:6379/0"),
    options={"form": "timeline", "set": "follower", "member": "post", "score": "posted_at"},
)
def timeline_of():
    return of_everybody().select("follower", "post", "posted_at")
