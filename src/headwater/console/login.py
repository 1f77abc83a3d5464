"""The login form: one plain page, without scripts, that works before anything else does."""

from __future__ import annotations

import html

WRONG = "That is not the token."
CLOSED = "Too many wrong tokens: wait a minute, then try again."

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Log in · headwater</title>
<style>
:root { color-scheme: light dark; --back: #f4f7f9; --card: #fff; --line: #d5dee5; --text: #10222f;
  --soft: #52687a; --brand: #0b6e8a; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --back: #0d161d; --card: #15212b; --line: #2b3b48;
  --text: #e6eef4; --soft: #9db0bf; --brand: #2aa3c4; --bad: #ff8a80; } }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; background: var(--back);
  color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
form { background: var(--card); border: 1px solid var(--line); border-radius: 14px; padding: 2rem;
  width: min(22rem, 84vw); }
h1 { font-size: 1.25rem; margin: 0 0 .25rem; }
p { margin: 0 0 1.25rem; color: var(--soft); }
label { display: block; font-weight: 600; margin-bottom: .35rem; }
input { box-sizing: border-box; width: 100%; padding: .6rem .7rem; font: inherit; color: inherit;
  background: transparent; border: 1px solid var(--line); border-radius: 8px; }
button { margin-top: 1rem; width: 100%; padding: .6rem; font: inherit; font-weight: 600; border: 0;
  border-radius: 8px; background: var(--brand); color: #fff; cursor: pointer; }
:focus-visible { outline: 3px solid var(--brand); outline-offset: 2px; }
.wrong { color: var(--bad); font-weight: 600; }
</style>
</head>
<body>
<main>
<form method="post" action="/login">
<h1>headwater</h1>
<p>The console asks for its token. Whoever started it has it in HEADWATER_CONSOLE_TOKEN.</p>
<!--said-->
<label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<button type="submit">Log in</button>
</form>
</main>
</body>
</html>
"""


def page(complaint: str | None = None) -> str:
    """The form, with what was wrong with the last try."""
    said = f'<p class="wrong" role="alert">{html.escape(complaint)}</p>' if complaint else ""
    return _PAGE.replace("<!--said-->", said)
