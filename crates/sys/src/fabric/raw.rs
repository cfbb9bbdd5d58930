//! Structures of libfabric that are used, with the layout of `rdma/*.h` of version 1.15.
//!
//! The API is mostly inline C functions over tables of operations, so a table's layout is its binary
//! interface. Every table starts with its size, which shows if a provider has filled in an operation
//! (`call`). Operations that are not used have the type of a plain pointer. A test of the parent module
//! compares the layout with the system's headers.

use std::ffi::{c_char, c_int, c_void};

/// Version `FI_VERSION(1, 15)`, which the structures and constants below follow.
pub const API_VERSION: u32 = 1 << 16 | 15;

pub const FI_MSG: u64 = 1 << 1;
pub const FI_RMA: u64 = 1 << 2;
pub const FI_READ: u64 = 1 << 8;
pub const FI_WRITE: u64 = 1 << 9;
pub const FI_RECV: u64 = 1 << 10;
pub const FI_SEND: u64 = 1 << 11;
pub const FI_REMOTE_READ: u64 = 1 << 12;
pub const FI_REMOTE_WRITE: u64 = 1 << 13;
pub const FI_NUMERICHOST: u64 = 1 << 55;
pub const FI_SOURCE: u64 = 1 << 57;
pub const FI_CONTEXT: u64 = 1 << 59;
pub const FI_CONTEXT2: u64 = 1 << 52;
pub const FI_ORDER_SAS: u64 = 1 << 8;
pub const FI_ADDR_UNSPEC: u64 = u64::MAX;

pub const FI_MR_LOCAL: c_int = 1 << 2;
pub const FI_MR_VIRT_ADDR: c_int = 1 << 4;
pub const FI_MR_ALLOCATED: c_int = 1 << 5;
pub const FI_MR_PROV_KEY: c_int = 1 << 6;
pub const FI_MR_ENDPOINT: c_int = 1 << 9;

pub const FI_AV_MAP: c_int = 1;
pub const FI_THREAD_DOMAIN: c_int = 3;
pub const FI_WAIT_NONE: c_int = 0;
pub const FI_WAIT_FD: c_int = 3;
pub const FI_CQ_FORMAT_MSG: c_int = 2;
pub const FI_GETWAIT: c_int = 5;
pub const FI_ENABLE: c_int = 6;
pub const FI_OPT_ENDPOINT: c_int = 0;
pub const FI_OPT_CM_DATA_SIZE: c_int = 1;

pub const FI_CONNREQ: u32 = 1;
pub const FI_CONNECTED: u32 = 2;
pub const FI_SHUTDOWN: u32 = 3;

/// Error numbers above those of the system.
pub const FI_EAVAIL: isize = 259;

pub type Function = *const c_void;

#[repr(C)]
pub struct TransmitAttributes {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub inject_size: usize,
    pub size: usize,
    pub iov_limit: usize,
    pub rma_iov_limit: usize,
    pub tclass: u32,
}

#[repr(C)]
pub struct ReceiveAttributes {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub total_buffered_recv: usize,
    pub size: usize,
    pub iov_limit: usize,
}

#[repr(C)]
pub struct EndpointAttributes {
    pub kind: c_int,
    pub protocol: u32,
    pub protocol_version: u32,
    pub max_msg_size: usize,
    pub msg_prefix_size: usize,
    pub max_order_raw_size: usize,
    pub max_order_war_size: usize,
    pub max_order_waw_size: usize,
    pub mem_tag_format: u64,
    pub tx_ctx_cnt: usize,
    pub rx_ctx_cnt: usize,
    pub auth_key_size: usize,
    pub auth_key: *mut u8,
}

#[repr(C)]
pub struct DomainAttributes {
    pub domain: *mut FidDomain,
    pub name: *mut c_char,
    pub threading: c_int,
    pub control_progress: c_int,
    pub data_progress: c_int,
    pub resource_mgmt: c_int,
    pub av_type: c_int,
    pub mr_mode: c_int,
    pub mr_key_size: usize,
    pub cq_data_size: usize,
    pub cq_cnt: usize,
    pub ep_cnt: usize,
    pub tx_ctx_cnt: usize,
    pub rx_ctx_cnt: usize,
    pub max_ep_tx_ctx: usize,
    pub max_ep_rx_ctx: usize,
    pub max_ep_stx_ctx: usize,
    pub max_ep_srx_ctx: usize,
    pub cntr_cnt: usize,
    pub mr_iov_limit: usize,
    pub caps: u64,
    pub mode: u64,
    pub auth_key: *mut u8,
    pub auth_key_size: usize,
    pub max_err_data: usize,
    pub mr_cnt: usize,
    pub tclass: u32,
}

#[repr(C)]
pub struct FabricAttributes {
    pub fabric: *mut FidFabric,
    pub name: *mut c_char,
    pub prov_name: *mut c_char,
    pub prov_version: u32,
    pub api_version: u32,
}

#[repr(C)]
pub struct FabricInfo {
    pub next: *mut FabricInfo,
    pub caps: u64,
    pub mode: u64,
    pub addr_format: u32,
    pub src_addrlen: usize,
    pub dest_addrlen: usize,
    pub src_addr: *mut c_void,
    pub dest_addr: *mut c_void,
    pub handle: *mut Fid,
    pub tx_attr: *mut TransmitAttributes,
    pub rx_attr: *mut ReceiveAttributes,
    pub ep_attr: *mut EndpointAttributes,
    pub domain_attr: *mut DomainAttributes,
    pub fabric_attr: *mut FabricAttributes,
    pub nic: *mut c_void,
}

/// Common header of all libfabric objects.
#[repr(C)]
pub struct Fid {
    pub class: usize,
    pub context: *mut c_void,
    pub ops: *mut FidOps,
}

#[repr(C)]
pub struct FidOps {
    pub size: usize,
    pub close: Option<unsafe extern "C" fn(*mut Fid) -> c_int>,
    pub bind: Option<unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> c_int>,
    pub control: Option<unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> c_int>,
    pub ops_open: Function,
}

#[repr(C)]
pub struct FidFabric {
    pub fid: Fid,
    pub ops: *mut FabricOps,
    pub api_version: u32,
}

#[repr(C)]
pub struct FabricOps {
    pub size: usize,
    pub domain: Option<
        unsafe extern "C" fn(*mut FidFabric, *mut FabricInfo, *mut *mut FidDomain, *mut c_void) -> c_int,
    >,
    pub passive_ep:
        Option<unsafe extern "C" fn(*mut FidFabric, *mut FabricInfo, *mut *mut FidPep, *mut c_void) -> c_int>,
    pub eq_open: Option<
        unsafe extern "C" fn(
            *mut FidFabric,
            *mut EventQueueAttributes,
            *mut *mut FidEq,
            *mut c_void,
        ) -> c_int,
    >,
    pub wait_open: Function,
    pub trywait: Option<unsafe extern "C" fn(*mut FidFabric, *mut *mut Fid, c_int) -> c_int>,
}

#[repr(C)]
pub struct FidDomain {
    pub fid: Fid,
    pub ops: *mut DomainOps,
    pub mr: *mut RegionOps,
}

#[repr(C)]
pub struct DomainOps {
    pub size: usize,
    pub av_open: Option<
        unsafe extern "C" fn(
            *mut FidDomain,
            *mut AddressVectorAttributes,
            *mut *mut FidAv,
            *mut c_void,
        ) -> c_int,
    >,
    pub cq_open: Option<
        unsafe extern "C" fn(
            *mut FidDomain,
            *mut CompletionQueueAttributes,
            *mut *mut FidCq,
            *mut c_void,
        ) -> c_int,
    >,
    pub endpoint:
        Option<unsafe extern "C" fn(*mut FidDomain, *mut FabricInfo, *mut *mut FidEp, *mut c_void) -> c_int>,
    pub scalable_ep: Function,
    pub cntr_open: Function,
    pub poll_open: Function,
    pub stx_ctx: Function,
    pub srx_ctx: Option<
        unsafe extern "C" fn(*mut FidDomain, *mut ReceiveAttributes, *mut *mut FidEp, *mut c_void) -> c_int,
    >,
}

#[repr(C)]
pub struct RegionOps {
    pub size: usize,
    pub reg: Option<
        unsafe extern "C" fn(
            *mut Fid,
            *const c_void,
            usize,
            u64,
            u64,
            u64,
            u64,
            *mut *mut FidMr,
            *mut c_void,
        ) -> c_int,
    >,
}

#[repr(C)]
pub struct FidMr {
    pub fid: Fid,
    pub mem_desc: *mut c_void,
    pub key: u64,
}

#[repr(C)]
pub struct AddressVectorAttributes {
    pub kind: c_int,
    pub rx_ctx_bits: c_int,
    pub count: usize,
    pub ep_per_node: usize,
    pub name: *const c_char,
    pub map_addr: *mut c_void,
    pub flags: u64,
}

#[repr(C)]
pub struct FidAv {
    pub fid: Fid,
    pub ops: *mut AddressVectorOps,
}

#[repr(C)]
pub struct AddressVectorOps {
    pub size: usize,
    pub insert:
        Option<unsafe extern "C" fn(*mut FidAv, *const c_void, usize, *mut u64, u64, *mut c_void) -> c_int>,
    pub insertsvc: Function,
    pub insertsym: Function,
    pub remove: Option<unsafe extern "C" fn(*mut FidAv, *mut u64, usize, u64) -> c_int>,
}

#[repr(C)]
pub struct CompletionQueueAttributes {
    pub size: usize,
    pub flags: u64,
    pub format: c_int,
    pub wait_obj: c_int,
    pub signaling_vector: c_int,
    pub wait_cond: c_int,
    pub wait_set: *mut c_void,
}

#[repr(C)]
pub struct FidCq {
    pub fid: Fid,
    pub ops: *mut CompletionQueueOps,
}

#[repr(C)]
pub struct CompletionQueueOps {
    pub size: usize,
    pub read: Option<unsafe extern "C" fn(*mut FidCq, *mut c_void, usize) -> isize>,
    pub readfrom: Option<unsafe extern "C" fn(*mut FidCq, *mut c_void, usize, *mut u64) -> isize>,
    pub readerr: Option<unsafe extern "C" fn(*mut FidCq, *mut CompletionError, u64) -> isize>,
}

/// Entry of a completion queue: `struct fi_cq_msg_entry`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CompletionEntry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
}

#[repr(C)]
pub struct CompletionError {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
    pub tag: u64,
    pub olen: usize,
    pub err: c_int,
    pub prov_errno: c_int,
    pub err_data: *mut c_void,
    pub err_data_size: usize,
}

#[repr(C)]
pub struct EventQueueAttributes {
    pub size: usize,
    pub flags: u64,
    pub wait_obj: c_int,
    pub signaling_vector: c_int,
    pub wait_set: *mut c_void,
}

#[repr(C)]
pub struct FidEq {
    pub fid: Fid,
    pub ops: *mut EventQueueOps,
}

#[repr(C)]
pub struct EventQueueOps {
    pub size: usize,
    pub read: Option<unsafe extern "C" fn(*mut FidEq, *mut u32, *mut c_void, usize, u64) -> isize>,
    pub readerr: Option<unsafe extern "C" fn(*mut FidEq, *mut EventError, u64) -> isize>,
}

/// `struct fi_eq_cm_entry` up to its private data.
#[repr(C)]
pub struct ConnectionEvent {
    pub fid: *mut Fid,
    pub info: *mut FabricInfo,
}

#[repr(C)]
pub struct EventError {
    pub fid: *mut Fid,
    pub context: *mut c_void,
    pub data: u64,
    pub err: c_int,
    pub prov_errno: c_int,
    pub err_data: *mut c_void,
    pub err_data_size: usize,
}

#[repr(C)]
pub struct FidEp {
    pub fid: Fid,
    pub ops: *mut EndpointOps,
    pub cm: *mut ConnectionOps,
    pub msg: *mut MessageOps,
    pub rma: *mut RemoteOps,
}

#[repr(C)]
pub struct FidPep {
    pub fid: Fid,
    pub ops: *mut EndpointOps,
    pub cm: *mut ConnectionOps,
}

#[repr(C)]
pub struct EndpointOps {
    pub size: usize,
    pub cancel: Function,
    pub getopt: Option<unsafe extern "C" fn(*mut Fid, c_int, c_int, *mut c_void, *mut usize) -> c_int>,
}

#[repr(C)]
pub struct ConnectionOps {
    pub size: usize,
    pub setname: Function,
    pub getname: Option<unsafe extern "C" fn(*mut Fid, *mut c_void, *mut usize) -> c_int>,
    pub getpeer: Function,
    pub connect: Option<unsafe extern "C" fn(*mut FidEp, *const c_void, *const c_void, usize) -> c_int>,
    pub listen: Option<unsafe extern "C" fn(*mut FidPep) -> c_int>,
    pub accept: Option<unsafe extern "C" fn(*mut FidEp, *const c_void, usize) -> c_int>,
    pub reject: Option<unsafe extern "C" fn(*mut FidPep, *mut Fid, *const c_void, usize) -> c_int>,
    pub shutdown: Option<unsafe extern "C" fn(*mut FidEp, u64) -> c_int>,
}

#[repr(C)]
pub struct MessageOps {
    pub size: usize,
    pub recv:
        Option<unsafe extern "C" fn(*mut FidEp, *mut c_void, usize, *mut c_void, u64, *mut c_void) -> isize>,
    pub recvv: Function,
    pub recvmsg: Function,
    pub send: Option<
        unsafe extern "C" fn(*mut FidEp, *const c_void, usize, *mut c_void, u64, *mut c_void) -> isize,
    >,
    pub sendv: Option<
        unsafe extern "C" fn(
            *mut FidEp,
            *const libc::iovec,
            *mut *mut c_void,
            usize,
            u64,
            *mut c_void,
        ) -> isize,
    >,
    pub sendmsg: Function,
    pub inject: Option<unsafe extern "C" fn(*mut FidEp, *const c_void, usize, u64) -> isize>,
}

#[repr(C)]
pub struct RemoteOps {
    pub size: usize,
    pub read: Function,
    pub readv: Option<
        unsafe extern "C" fn(
            *mut FidEp,
            *const libc::iovec,
            *mut *mut c_void,
            usize,
            u64,
            u64,
            u64,
            *mut c_void,
        ) -> isize,
    >,
    pub readmsg: Function,
    pub write: Function,
    pub writev: Option<
        unsafe extern "C" fn(
            *mut FidEp,
            *const libc::iovec,
            *mut *mut c_void,
            usize,
            u64,
            u64,
            u64,
            *mut c_void,
        ) -> isize,
    >,
}

/// Memory that some providers use while an operation is pending: `struct fi_context2`.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct OperationContext {
    internal: [*mut c_void; 8],
}

impl Default for OperationContext {
    fn default() -> OperationContext {
        OperationContext { internal: [std::ptr::null_mut(); 8] }
    }
}

/// Calls an operation of a table if the table is long enough and has the operation; otherwise returns
/// `None`.
macro_rules! call {
    ($table:expr, $type:ty, $operation:ident ( $($argument:expr),* $(,)? )) => {{
        let table: *mut $type = $table;
        if table.is_null()
            || (*table).size < std::mem::offset_of!($type, $operation) + size_of::<*const ()>()
        {
            None
        } else {
            (*table).$operation.map(|operation| operation($($argument),*))
        }
    }};
}
pub(super) use call;
