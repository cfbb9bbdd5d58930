//! Sockets for IP multicast that send and receive many datagrams in a call (UDP_SEGMENT, UDP_GRO).

use std::io;
use std::mem::{size_of, size_of_val, zeroed};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Size of the send buffer in bytes. With megabytes, interfaces were seen to drop a quarter of the
/// datagrams without an error.
const SEND_BYTES: libc::c_int = 256 << 10;
/// Size of the receive buffer in bytes, if the system allows that much.
const RECEIVE_BYTES: libc::c_int = 4 << 20;
/// Words for one control message with an int.
const CONTROL_WORDS: usize = 4;

/// Creates a socket that sends to a multicast group and receives from it, through the interface with the
/// address `interface`. It does not receive its own datagrams, and does not block.
///
/// # Errors
/// The system's error: no such interface, too many memberships, or the port is in exclusive use.
pub fn join(interface: Ipv4Addr, group: SocketAddrV4) -> io::Result<UdpSocket> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: a plain system call.
    let fd = check(unsafe { libc::socket(libc::AF_INET, kind, 0) })?;
    // SAFETY: fd was just created and has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // Several processes of a host receive from the same group.
    set(&fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, &1)?;
    set(&fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &SEND_BYTES)?;
    set(&fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &RECEIVE_BYTES)?;
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: group.port().to_be(),
        sin_addr: raw(*group.ip()),
        sin_zero: [0; 8],
    };
    let bytes = size_of_val(&address) as libc::socklen_t;
    // Bound to the group, it receives nothing that is sent to this host alone.
    // SAFETY: the address is valid for the call, with its size.
    check(unsafe { libc::bind(fd.as_raw_fd(), std::ptr::from_ref(&address).cast(), bytes) })?;
    let membership =
        libc::ip_mreqn { imr_multiaddr: raw(*group.ip()), imr_address: raw(interface), imr_ifindex: 0 };
    set(&fd, libc::IPPROTO_IP, libc::IP_MULTICAST_IF, &membership)?;
    set(&fd, libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, &membership)?;
    set(&fd, libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, &0)?;
    set(&fd, libc::IPPROTO_IP, libc::IP_MULTICAST_ALL, &0)?;
    // A datagram that is too long for the network causes an error instead of fragments.
    set(&fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, &libc::IP_PMTUDISC_DO)?;
    // Without this option each datagram is received by itself.
    let _ = set(&fd, libc::SOL_UDP, libc::UDP_GRO, &1);
    Ok(UdpSocket::from(fd))
}

/// Sends consecutive datagrams of `each` bytes; the last one may be shorter. Returns false if the system
/// has no room now.
///
/// # Errors
/// The system's error. Some interfaces accept only one datagram a call.
pub fn send(socket: &UdpSocket, to: SocketAddrV4, bytes: &[u8], each: usize) -> io::Result<bool> {
    let mut address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: to.port().to_be(),
        sin_addr: raw(*to.ip()),
        sin_zero: [0; 8],
    };
    let mut piece = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = [0_u64; CONTROL_WORDS];
    // SAFETY: an all-zero header is a valid value of that plain C structure.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_name = (&raw mut address).cast();
    header.msg_namelen = size_of_val(&address) as libc::socklen_t;
    header.msg_iov = &raw mut piece;
    header.msg_iovlen = 1;
    if bytes.len() > each {
        let segment = each as u16;
        header.msg_control = control.as_mut_ptr().cast();
        // SAFETY: the macro only computes.
        header.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<u16>() as u32) } as usize;
        // SAFETY: the control buffer is aligned, and has room for one message with two bytes.
        unsafe {
            let message = libc::CMSG_FIRSTHDR(&header);
            (*message).cmsg_level = libc::SOL_UDP;
            (*message).cmsg_type = libc::UDP_SEGMENT;
            (*message).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as usize;
            libc::CMSG_DATA(message).cast::<u16>().write_unaligned(segment);
        }
    }
    // SAFETY: the header points to an address, one piece and one control message that live through the call.
    let count =
        unsafe { libc::sendmsg(socket.as_raw_fd(), &header, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
    if count >= 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => Ok(false),
        _ => Err(error),
    }
}

/// Receives consecutive datagrams into `room`. Returns the number of bytes and the length of each datagram;
/// the last one may be shorter. `None` means that there is nothing to receive.
///
/// # Errors
/// Errors of the system.
pub fn receive(socket: &UdpSocket, room: &mut [u8]) -> io::Result<Option<(usize, usize)>> {
    let mut piece = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
    let mut control = [0_u64; CONTROL_WORDS];
    // SAFETY: an all-zero header is a valid value of that plain C structure.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = &raw mut piece;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control);
    // SAFETY: the header points to one writable piece and to room for control messages.
    let count = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) };
    let Ok(bytes) = usize::try_from(count) else {
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => Ok(None),
            _ => Err(error),
        };
    };
    let mut each = bytes;
    // SAFETY: the kernel has written whole control messages, which the macros walk over.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(&header);
        while !message.is_null() {
            if (*message).cmsg_level == libc::SOL_UDP && (*message).cmsg_type == libc::UDP_GRO {
                let segment = libc::CMSG_DATA(message).cast::<libc::c_int>().read_unaligned();
                each = usize::try_from(segment).unwrap_or(bytes);
            }
            message = libc::CMSG_NXTHDR(&header, message);
        }
    }
    Ok(Some((bytes, each.max(1))))
}

fn raw(address: Ipv4Addr) -> libc::in_addr {
    libc::in_addr { s_addr: u32::from_ne_bytes(address.octets()) }
}

fn set<T>(fd: &OwnedFd, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    let bytes = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value is readable for its size.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), bytes) })?;
    Ok(())
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
