"""Topics: the list, and one topic with its records: look, walk, follow, search, publish, replay."""

from headwater.console.pages.topics.page import PAGES as PAGES
