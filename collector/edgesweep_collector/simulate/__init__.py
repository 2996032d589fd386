"""A fleet that does not exist: devices with known answers, over the real transports.

Pure are ``shapes``, ``classes``, ``fleet``, ``truth``, ``timetable``, ``levels``, ``readings``,
``boots`` and ``life``: a seed and a start time decide every byte. ``perform`` plays that on a
clock, with ``player``, ``outbox``, ``mqtt`` and ``grpc``.
"""
