"""The senders that people know, as styles; `plain` and `token` are for all others, by their settings."""

from __future__ import annotations

from headwater.edges.hooks.signatures import Style

STANDARD = Style(
    header="webhook-signature",
    layout="versions",
    encoding="base64",
    signed="{id}.{timestamp}.{body}",
    timestamp_header="webhook-timestamp",
    id_header="webhook-id",
    kept=("webhook-id", "webhook-timestamp"),
)
"""https://www.standardwebhooks.com; our own webhooks out are signed so."""

PRESETS: dict[str, Style] = {
    "standard": STANDARD,
    "github": Style(
        header="x-hub-signature-256",
        prefix="sha256=",
        id_header="x-github-delivery",
        kept=("x-github-delivery", "x-github-event", "x-github-hook-id"),
    ),
    "stripe": Style(
        header="stripe-signature",
        layout="pairs",
        signed="{timestamp}.{body}",
        id_field="id",
    ),
    "slack": Style(
        header="x-slack-signature",
        prefix="v0=",
        signed="v0:{timestamp}:{body}",
        timestamp_header="x-slack-request-timestamp",
        id_field="event_id",
        is_id_needed=False,  # slash commands have none
        kept=("x-slack-request-timestamp", "x-slack-retry-num", "x-slack-retry-reason"),
    ),
    "shopify": Style(
        header="x-shopify-hmac-sha256",
        encoding="base64",
        id_header="x-shopify-webhook-id",
        kept=(
            "x-shopify-webhook-id",
            "x-shopify-topic",
            "x-shopify-shop-domain",
            "x-shopify-triggered-at",
        ),
    ),
    "gitlab": Style(
        header="x-gitlab-token",
        algorithm="token",
        id_header="x-gitlab-event-uuid",
        is_id_needed=False,
        kept=("x-gitlab-event", "x-gitlab-event-uuid", "x-gitlab-instance"),
    ),
    "plain": Style(header="x-signature"),
    "token": Style(header="x-token", algorithm="token"),
}
ADJUSTABLE = ("plain", "token")
"""The styles whose headers a hook may name itself."""
