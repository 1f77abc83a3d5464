"""The console: a web page that shows the flow and lets people act on it; `headwater console`.

One process with one NiceGUI page. It owns no state but the last minutes of some counters: everything that it
shows is asked of the log, the project and the stores, and everything that it does is done by what the
command line uses. NiceGUI is imported below `app` only.
"""
