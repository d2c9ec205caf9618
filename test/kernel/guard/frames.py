"""Puts frames on links and says which IPIP packets a stack delivers.

frames.py send LINK          hexadecimal frames, one a line, from standard input to the wire
frames.py flood LINK FRAME   the same frame again and again; on SIGTERM prints how many were sent
frames.py tun LINK           hexadecimal packets into this stack, as if the tun device LINK had received them
frames.py fragments LINK FIRST LAST        as "send", each frame once for every number of bytes from FIRST to LAST in
frames.py tun-fragments LINK FIRST LAST    the linear part of its skb, the rest in page fragments; the same with "tun".
                                           A frame that fits in a page is linear all the same
frames.py listen             prints "ready", then the source of every packet with protocol 4 that is delivered locally
"""

import fcntl
import signal
import socket
import struct
import sys
import time


def wire(link):
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    sender.bind((link, 0))
    return sender


def send(link):
    sender = wire(link)
    for line in sys.stdin:
        sender.send(bytes.fromhex(line))


def flood(link, frame):
    sender = wire(link)
    running = True

    def stop(*_):
        nonlocal running
        running = False

    signal.signal(signal.SIGTERM, stop)
    sent = 0
    while running:
        sent += sender.send(bytes.fromhex(frame)) > 0
        if sent == 1:
            print("ready", flush=True)
        time.sleep(0.0002)
    print(sent)


def open_tun(link, flags=0):
    set_interface, no_packet_information, mode_tun = 0x400454CA, 0x1000, 0x0001
    device = open("/dev/net/tun", "r+b", buffering=0)
    fcntl.ioctl(device, set_interface, struct.pack("16sH22x", link.encode(), mode_tun | no_packet_information | flags))
    return device


def tun(link):
    with open_tun(link) as device:
        for line in sys.stdin:
            device.write(bytes.fromhex(line))


def with_linear_parts(first, last):
    """Frames behind a struct virtio_net_hdr, whose hdr_len is what the kernel makes linear."""
    for line in sys.stdin:
        frame = bytes.fromhex(line)
        for linear in range(int(first), int(last) + 1):
            yield struct.pack("=BBHHHH", 0, 0, min(linear, len(frame)), 0, 0, 0) + frame


def fragments(link, first, last):
    sol_packet, packet_vnet_header = 263, 15
    sender = wire(link)
    sender.setsockopt(sol_packet, packet_vnet_header, 1)
    for frame in with_linear_parts(first, last):
        sender.send(frame)


def tun_fragments(link, first, last):
    vnet_header = 0x4000
    with open_tun(link, vnet_header) as device:
        for packet in with_linear_parts(first, last):
            device.write(packet)


def listen():
    receiver = socket.socket(socket.AF_INET, socket.SOCK_RAW, 4)
    print("ready", flush=True)
    while True:
        print(receiver.recvfrom(65535)[1][0], flush=True)


modes = {
    "send": send,
    "flood": flood,
    "tun": tun,
    "fragments": fragments,
    "tun-fragments": tun_fragments,
    "listen": listen,
}
modes[sys.argv[1]](*sys.argv[2:])
