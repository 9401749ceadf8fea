"""The connection below an answer: what the operating system holds of it for a client that does not read."""

import socket
import struct
from asyncio import Transport

# Bytes that are not on their way yet. By default it holds megabytes, and takes more only after a large part is read.
MOST_UNSENT = 64 * 1024


def hold_little(connection: Transport) -> None:
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if option is not None:
        socket_of(connection).setsockopt(socket.IPPROTO_TCP, option, MOST_UNSENT)


def reset(connection: Transport) -> None:
    """End the connection at once. A plain close would wait until the client has read everything, and so would the
    operating system with what it has buffered."""
    socket_of(connection).setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.abort()


def socket_of(connection: Transport) -> socket.socket:
    found: socket.socket = connection.get_extra_info("socket")
    return found
