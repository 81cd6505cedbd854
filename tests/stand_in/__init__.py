"""A stand-in for a Qdrant server: its HTTP interface before the client's local mode, with faults at will.

What twinvec asks of a server, and no more. Every request may meet a fault; see ``Fault``. ``server`` has the running
server, ``actions`` what a request does, and ``rest`` how requests arrive over HTTP.
"""

from stand_in.rest import Fault
from stand_in.server import StandIn

__all__ = ["Fault", "StandIn"]
