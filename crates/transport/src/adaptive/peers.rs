//! Which peers were spoken to: ranks to small numbers in order of first contact.
//!
//! Two loads a look-up; a page of 64 ranks is there only if one of them was spoken to.

const PAGE: usize = 64;
const NOBODY: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(super) struct Peers {
    pages: Vec<Option<Box<[u32; PAGE]>>>,
}

impl Peers {
    #[inline]
    pub(super) fn find(&self, rank: u32) -> Option<usize> {
        let rank = rank as usize;
        let page = self.pages.get(rank / PAGE)?.as_ref()?;
        let index = page[rank % PAGE];
        (index != NOBODY).then_some(index as usize)
    }

    pub(super) fn insert(&mut self, rank: u32, index: usize) {
        let (page, place) = (rank as usize / PAGE, rank as usize % PAGE);
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || None);
        }
        self.pages[page].get_or_insert_with(|| Box::new([NOBODY; PAGE]))[place] = index as u32;
    }

    pub(super) fn memory(&self) -> usize {
        self.pages.capacity() * size_of::<Option<Box<()>>>()
            + self.pages.iter().flatten().count() * PAGE * size_of::<u32>()
    }
}
