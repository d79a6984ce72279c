"""Texts that are answered once, from events that are held.

* ``absence``: Answers about absence among matches that were found once in held events
* ``once``: A text is answered once from held events; the home registers nothing and is only read
* ``steps``: Answers of steps over matches of parts that were found once in held events
* ``sub_queries``: A text with queries in parentheses, answered once: in a home of its own, which takes in what is held
  and is removed
* ``windows``: Answers of windows over matches that were found once in held events
"""
