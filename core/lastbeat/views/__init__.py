"""Views for people: a fleet and each of its runs, in a terminal, as JSON, and as a page.

::

    listing, index, ──► known_run ──► standing ──► rows ──► documents    one row a run; watching.FleetWatch asks the
    heartbeats          what is       what it is            fleet_state  store, within what an interval may ask for
                        known
    a run's files ────► file_cache ─► judging ────► rows, evidence,      one_run.RunWatch: the same row, and all that
                        their bytes   what it is    ranks, recorded      there is no room for in a table
                                                        └──► run_document, account

``watch.decide`` alone says what a run without a record is: ``judging`` gives it what was read, ``rows`` what a listing
and the heartbeats show. ``safe`` makes every text fit to be shown. ``page`` puts the documents into one HTML file.

Public face: ``watching.FleetWatch``, ``one_run.RunWatch``, ``documents``, ``run_document``, ``page``. It may import
``fleet``, ``jobs``, ``watch`` and what those may.
"""
