//! The wrappers against the provider tcp and udp on loopback, and the layout against the system's headers.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::mem::offset_of;
use std::process::Command;
use std::ptr::null_mut;
use std::rc::Rc;

use super::raw::*;
use super::*;

/// Returns the first offer on loopback; `None` where libfabric or the provider is not installed.
fn offer(provider: &str, kind: EndpointKind, remote_access: bool) -> Option<Info> {
    let offers = Query { provider, kind, source: "127.0.0.1", remote_access }.run();
    match offers {
        Ok(mut offers) => Some(offers.remove(0)),
        Err(Error::NotInstalled(_) | Error::NoProvider(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Receive buffer with its context, at a stable address.
struct Buffer {
    context: Box<OperationContext>,
    bytes: Vec<u8>,
}

impl Buffer {
    fn new(bytes: usize) -> Buffer {
        Buffer { context: Box::new(OperationContext::default()), bytes: vec![0; bytes] }
    }

    fn post(&mut self, receiver: &impl Receiver) {
        let start = self.bytes.as_mut_ptr();
        // SAFETY: buffers outlive their receivers in these tests, and are read after completion only.
        let posted =
            unsafe { receiver.receive(start, self.bytes.len(), null_mut(), &mut *self.context) }.unwrap();
        assert!(posted);
    }
}

fn wait(queue: &CompletionQueue) -> Completion {
    let mut completions = [Completion { context: null_mut(), bytes: 0, received: false }; 4];
    loop {
        let count = queue.read(&mut completions, |failure| panic!("{failure:?}")).unwrap();
        assert!(count <= 1, "one operation at a time");
        if count == 1 {
            return completions[0];
        }
        if let (Some(descriptor), true) = (queue.descriptor(), queue.may_wait().unwrap()) {
            let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
            // SAFETY: one descriptor, as stated.
            assert!(unsafe { libc::poll(&mut poll, 1, 20_000) } > 0, "nothing came");
        }
    }
}

/// Returns the next event of one side while both sides make progress. Nothing is received meanwhile.
fn event(sides: &[Side; 2], of: usize) -> ConnectionChange {
    let mut done = [Completion { context: null_mut(), bytes: 0, received: false }; 1];
    for _ in 0..20_000 {
        for side in sides {
            side.seen.borrow_mut().extend(side.events.read().unwrap());
            assert_eq!(side.completions.read(&mut done, |failure| panic!("{failure:?}")).unwrap(), 0);
        }
        if let Some(change) = sides[of].seen.borrow_mut().pop_front() {
            return change;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("no event came");
}

#[test]
fn datagrams_go_to_whoever_is_in_the_address_vector() {
    let Some(info) = offer("udp", EndpointKind::Datagram, false) else { return };
    assert_eq!(info.provider(), "udp");
    let fabric = Fabric::open(&info).unwrap();
    let domain = Domain::open(&fabric, &info).unwrap();
    let ends: Vec<_> = (0..2)
        .map(|_| {
            let queue = CompletionQueue::open(&domain, 64, Wakeup::Descriptor).unwrap();
            let addresses = AddressVector::open(&domain).unwrap();
            let endpoint = Endpoint::unconnected(&domain, &queue, &addresses).unwrap();
            (endpoint, queue, addresses)
        })
        .collect();
    let mut buffers: Vec<Buffer> = (0..2).map(|_| Buffer::new(2048)).collect();
    for round in 0..10u8 {
        let (from, to) = (&ends[round as usize % 2], &ends[1 - round as usize % 2]);
        let buffer = &mut buffers[1 - round as usize % 2];
        buffer.post(&to.0);
        let peer = from.2.insert(&to.0.name().unwrap()).unwrap();
        assert!(from.0.inject(peer, &[round; 100]).unwrap());
        let completion = wait(&to.1);
        assert!(std::ptr::eq(completion.context, &*buffer.context));
        assert_eq!((completion.received, completion.bytes, buffer.bytes[99]), (true, 100, round));
        from.2.remove(peer);
    }
    drop(ends);
}

/// One side of a connection in a test.
struct Side {
    domain: Rc<Domain>,
    events: Rc<EventQueue>,
    completions: Rc<CompletionQueue>,
    shared: Rc<SharedReceive>,
    seen: RefCell<VecDeque<ConnectionChange>>,
}

fn side(info: &Info) -> Side {
    let fabric = Fabric::open(info).unwrap();
    let domain = Domain::open(&fabric, info).unwrap();
    Side {
        events: EventQueue::open(&fabric, Wakeup::Descriptor).unwrap(),
        completions: CompletionQueue::open(&domain, 64, Wakeup::Descriptor).unwrap(),
        shared: SharedReceive::open(&domain, 64).unwrap(),
        domain,
        seen: RefCell::default(),
    }
}

fn endpoint(side: &Side, info: &Info) -> Endpoint {
    Endpoint::connected(&side.domain, info, &side.completions, &side.events, Some(&side.shared)).unwrap()
}

/// Connects two endpoints, after one request was refused.
fn connect(info: &Info, sides: &[Side; 2]) -> (Endpoint, Endpoint) {
    let passive = PassiveEndpoint::listen(sides[1].domain.fabric(), info, &sides[1].events).unwrap();
    for answer in [None, Some(b"welcome")] {
        let active = endpoint(&sides[0], info);
        assert!(active.private_bytes() >= 64, "{} bytes", active.private_bytes());
        active.connect(&passive.name().unwrap(), b"please").unwrap();
        let ConnectionChange::Requested { request, data } = event(sides, 1) else { panic!() };
        assert_eq!(&data[..6], b"please");
        let Some(words) = answer else {
            passive.reject(&request, b"no").unwrap();
            let ConnectionChange::Refused { endpoint, code, data } = event(sides, 0) else { panic!() };
            assert_eq!((endpoint, code), (active.identity(), libc::ECONNREFUSED));
            assert!(data.starts_with(b"no"));
            continue;
        };
        let accepted = endpoint(&sides[1], &request);
        accepted.accept(words).unwrap();
        let ConnectionChange::Connected { data, .. } = event(sides, 0) else { panic!() };
        assert!(data.starts_with(words));
        let change = event(sides, 1);
        let connected =
            matches!(change, ConnectionChange::Connected { endpoint, .. } if endpoint == accepted.identity());
        assert!(connected, "{change:?}");
        return (active, accepted);
    }
    unreachable!("the second request is accepted");
}

#[test]
fn connections_carry_messages_and_reads_of_remote_memory() {
    let Some(info) = offer("tcp", EndpointKind::Connected, true) else { return };
    let sides = [side(&info), side(&info)];
    let (active, accepted) = connect(&info, &sides);
    let unspecified = PeerAddress::UNSPECIFIED;
    let mut buffers: Vec<Buffer> = (0..2).map(|_| Buffer::new(100_000)).collect();
    for round in 0..6u8 {
        let (from, to) = if round % 2 == 0 { (&active, 1) } else { (&accepted, 0) };
        buffers[to].post(&*sides[to].shared);
        let bytes = vec![round; 90_000];
        let mut context = Box::new(OperationContext::default());
        // SAFETY: both live until the completion below.
        let posted = unsafe {
            from.send_pieces(
                unspecified,
                &[(bytes.as_ptr(), 1000), (bytes[1000..].as_ptr(), 89_000)],
                &mut [],
                &mut *context,
            )
        };
        assert!(posted.unwrap());
        let mut done = [Completion { context: null_mut(), bytes: 0, received: false }; 1];
        let mut sent = 0;
        let received = loop {
            sent += sides[1 - to].completions.read(&mut done, |failure| panic!("{failure:?}")).unwrap();
            if sides[to].completions.read(&mut done, |failure| panic!("{failure:?}")).unwrap() == 1 {
                break done[0];
            }
        };
        assert_eq!((received.bytes, buffers[to].bytes[89_999]), (90_000, round));
        if sent == 0 {
            assert!(!wait(&sides[1 - to].completions).received);
        }
    }
    read_remote(&sides, &active);
    drop(accepted);
    let change = event(&sides, 0);
    assert!(
        matches!(change, ConnectionChange::Closed { endpoint } if endpoint == active.identity()),
        "{change:?}"
    );
}

fn read_remote(sides: &[Side; 2], active: &Endpoint) {
    let remote = vec![7u8; 300_000];
    // SAFETY: the memory outlives the region, and nothing writes it.
    let region = unsafe {
        RegisteredRegion::register(&sides[1].domain, remote.as_ptr(), remote.len(), Rights::RemoteRead, None)
            .unwrap()
    };
    let mut local = vec![0u8; 200_000];
    let mut context = Box::new(OperationContext::default());
    let pieces = [(local.as_mut_ptr(), 50_000), (local[100_000..].as_mut_ptr(), 100_000)];
    // SAFETY: local memory and context live until the completion below.
    let posted = unsafe {
        active.read_remote(PeerAddress::UNSPECIFIED, &pieces, &mut [], (5, region.key()), &mut *context)
    };
    assert!(posted.unwrap());
    let mut done = [Completion { context: null_mut(), bytes: 0, received: false }; 1];
    let mut other = done;
    while sides[0].completions.read(&mut done, |failure| panic!("{failure:?}")).unwrap() == 0 {
        assert_eq!(sides[1].completions.read(&mut other, |failure| panic!("{failure:?}")).unwrap(), 0);
    }
    let expected = [(0, 50_000, 7), (50_000, 100_000, 0), (100_000, 200_000, 7)];
    for (start, end, value) in expected {
        assert!(local[start..end].iter().all(|&byte| byte == value), "{start}..{end}");
    }
}

#[test]
fn what_is_not_there_is_an_error_with_its_name() {
    let error = Query { provider: "nobody", kind: EndpointKind::Connected, source: "", remote_access: false }
        .run()
        .unwrap_err();
    assert!(matches!(&error, Error::NoProvider(_) | Error::NotInstalled(_)), "{error}");
}

#[test]
fn loading_leaves_signals_alone() {
    // SAFETY: reads the action of a signal.
    let handler = || unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGTERM, std::ptr::null(), &mut action);
        action.sa_sigaction
    };
    let before = handler();
    let _ = version();
    assert_eq!(handler(), before);
}

/// Lists sizes and offsets: C structure, C field (empty for the size), and the value here.
fn layout() -> Vec<(&'static str, &'static str, usize)> {
    vec![
        ("fi_info", "", size_of::<FabricInfo>()),
        ("fi_info", "fabric_attr", offset_of!(FabricInfo, fabric_attr)),
        ("fi_info", "handle", offset_of!(FabricInfo, handle)),
        ("fi_tx_attr", "", size_of::<TransmitAttributes>()),
        ("fi_tx_attr", "rma_iov_limit", offset_of!(TransmitAttributes, rma_iov_limit)),
        ("fi_rx_attr", "", size_of::<ReceiveAttributes>()),
        ("fi_ep_attr", "", size_of::<EndpointAttributes>()),
        ("fi_ep_attr", "max_msg_size", offset_of!(EndpointAttributes, max_msg_size)),
        ("fi_domain_attr", "", size_of::<DomainAttributes>()),
        ("fi_domain_attr", "mr_mode", offset_of!(DomainAttributes, mr_mode)),
        ("fi_domain_attr", "max_ep_srx_ctx", offset_of!(DomainAttributes, max_ep_srx_ctx)),
        ("fi_fabric_attr", "", size_of::<FabricAttributes>()),
        ("fid", "", size_of::<Fid>()),
        ("fi_ops", "control", offset_of!(FidOps, control)),
        ("fi_ops_fabric", "trywait", offset_of!(FabricOps, trywait)),
        ("fi_ops_domain", "srx_ctx", offset_of!(DomainOps, srx_ctx)),
        ("fi_ops_mr", "reg", offset_of!(RegionOps, reg)),
        ("fid_mr", "", size_of::<FidMr>()),
        ("fi_av_attr", "", size_of::<AddressVectorAttributes>()),
        ("fi_ops_av", "remove", offset_of!(AddressVectorOps, remove)),
        ("fi_cq_attr", "", size_of::<CompletionQueueAttributes>()),
        ("fi_ops_cq", "readerr", offset_of!(CompletionQueueOps, readerr)),
        ("fi_cq_msg_entry", "", size_of::<CompletionEntry>()),
        ("fi_cq_err_entry", "", size_of::<CompletionError>()),
        ("fi_cq_err_entry", "err", offset_of!(CompletionError, err)),
        ("fi_eq_attr", "", size_of::<EventQueueAttributes>()),
        ("fi_ops_eq", "readerr", offset_of!(EventQueueOps, readerr)),
        ("fi_eq_cm_entry", "", size_of::<ConnectionEvent>()),
        ("fi_eq_err_entry", "", size_of::<EventError>()),
        ("fid_ep", "rma", offset_of!(FidEp, rma)),
        ("fid_pep", "cm", offset_of!(FidPep, cm)),
        ("fi_ops_ep", "getopt", offset_of!(EndpointOps, getopt)),
        ("fi_ops_cm", "shutdown", offset_of!(ConnectionOps, shutdown)),
        ("fi_ops_cm", "getname", offset_of!(ConnectionOps, getname)),
        ("fi_ops_msg", "inject", offset_of!(MessageOps, inject)),
        ("fi_ops_msg", "sendv", offset_of!(MessageOps, sendv)),
        ("fi_ops_rma", "readv", offset_of!(RemoteOps, readv)),
        ("fi_ops_rma", "writev", offset_of!(RemoteOps, writev)),
        ("fi_context2", "", size_of::<OperationContext>()),
    ]
}

/// Lists constants: name in C, and the value here.
fn constants() -> Vec<(&'static str, u64)> {
    vec![
        ("FI_EP_MSG", EndpointKind::Connected as u64),
        ("FI_EP_DGRAM", EndpointKind::Datagram as u64),
        ("FI_EP_RDM", EndpointKind::Reliable as u64),
        ("FI_MSG", FI_MSG),
        ("FI_RMA", FI_RMA),
        ("FI_RECV", FI_RECV),
        ("FI_SEND", FI_SEND),
        ("FI_REMOTE_READ", FI_REMOTE_READ),
        ("FI_SOURCE", FI_SOURCE),
        ("FI_NUMERICHOST", FI_NUMERICHOST),
        ("FI_CONTEXT", FI_CONTEXT),
        ("FI_CONTEXT2", FI_CONTEXT2),
        ("FI_ORDER_SAS", FI_ORDER_SAS),
        ("FI_MR_LOCAL", FI_MR_LOCAL as u64),
        ("FI_MR_VIRT_ADDR", FI_MR_VIRT_ADDR as u64),
        ("FI_MR_ALLOCATED", FI_MR_ALLOCATED as u64),
        ("FI_MR_PROV_KEY", FI_MR_PROV_KEY as u64),
        ("FI_MR_ENDPOINT", FI_MR_ENDPOINT as u64),
        ("FI_THREAD_DOMAIN", FI_THREAD_DOMAIN as u64),
        ("FI_WAIT_FD", FI_WAIT_FD as u64),
        ("FI_CQ_FORMAT_MSG", FI_CQ_FORMAT_MSG as u64),
        ("FI_GETWAIT", FI_GETWAIT as u64),
        ("FI_ENABLE", FI_ENABLE as u64),
        ("FI_OPT_CM_DATA_SIZE", FI_OPT_CM_DATA_SIZE as u64),
        ("FI_CONNREQ", u64::from(FI_CONNREQ)),
        ("FI_CONNECTED", u64::from(FI_CONNECTED)),
        ("FI_SHUTDOWN", u64::from(FI_SHUTDOWN)),
        ("FI_EAVAIL", FI_EAVAIL as u64),
    ]
}

#[test]
fn the_layout_is_that_of_the_systems_headers() {
    if !std::path::Path::new("/usr/include/rdma/fi_rma.h").exists() {
        return;
    }
    let mut checks = String::new();
    for (structure, field, value) in layout() {
        let measure = match field {
            "" => format!("sizeof(struct {structure})"),
            _ => format!("offsetof(struct {structure}, {field})"),
        };
        checks += &format!("_Static_assert({measure} == {value}, \"{structure}.{field}\");\n");
    }
    for (constant, value) in constants() {
        checks +=
            &format!("_Static_assert((unsigned long long)({constant}) == {value}ULL, \"{constant}\");\n");
    }
    let headers = ["fi_domain", "fi_endpoint", "fi_cm", "fi_eq", "fi_rma", "fi_errno"];
    let includes: String = headers.iter().map(|name| format!("#include <rdma/{name}.h>\n")).collect();
    let folder = std::env::temp_dir().join(format!("fabric-layout-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("layout.c");
    std::fs::write(&file, includes + "#include <stddef.h>\n" + &checks).unwrap();
    let compiled = Command::new("cc").arg("-fsyntax-only").arg(&file).output();
    std::fs::remove_dir_all(&folder).unwrap();
    if let Ok(output) = compiled {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
