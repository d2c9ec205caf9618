"""Puts frames on links and says which IPIP packets a stack delivers.

frames.py send LINK          hexadecimal frames, one a line, from standard input to the wire
frames.py flood LINK FRAME   the same frame again and again; on SIGTERM prints how many were sent
frames.py tun LINK           hexadecimal packets into this stack, as if the tun device LINK had received them
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


def tun(link):
    set_interface, no_packet_information, mode_tun = 0x400454CA, 0x1000, 0x0001
    with open("/dev/net/tun", "r+b", buffering=0) as device:
        fcntl.ioctl(device, set_interface, struct.pack("16sH22x", link.encode(), mode_tun | no_packet_information))
        for line in sys.stdin:
            device.write(bytes.fromhex(line))


def listen():
    receiver = socket.socket(socket.AF_INET, socket.SOCK_RAW, 4)
    print("ready", flush=True)
    while True:
        print(receiver.recvfrom(65535)[1][0], flush=True)


{"send": send, "flood": flood, "tun": tun, "listen": listen}[sys.argv[1]](*sys.argv[2:])
