"""A stand-in for a Qdrant server: its HTTP interface before the client's local mode, with faults and limits at will.

What twinvec asks of a server, and no more. Every request may meet a fault; see ``Fault``. ``server`` has the running
server, ``actions`` what a request does, ``rest`` how requests arrive over HTTP and ``grpc_face`` over gRPC, ``strict``
the limits of strict mode, ``schema`` the form of requests, ``shards`` and ``copies`` where points lie, and ``clock`` a
clock for the limits. ``forwarding`` and ``grpc_forwarding`` send requests on to a real server instead.
"""

from stand_in.clock import Clock
from stand_in.rest import Fault, drawn_faults
from stand_in.server import StandIn
from stand_in.strict import STRICT

__all__ = ["STRICT", "Clock", "Fault", "StandIn", "drawn_faults"]
