"""Dead letters: the topics that have some, the letters of one, and one letter to correct and send back."""

from headwater.console.pages.dead_letters.page import PAGES as PAGES
