"""Time travel: the states of one key, or of a view, at any moment that the log still has."""

from headwater.console.pages.time_travel.page import PAGES as PAGES
