"""Consumer groups: the list, one group with its lag, and moving its offsets."""

from headwater.console.pages.groups.page import PAGES as PAGES
