//! Trees in depth-first order, which takes least room and is walked through fastest.

/// The nodes in that order, with their parents' new numbers, and the new numbers of the old ones. Parents come before their
/// children.
pub(super) fn depth_first<N>(
    nodes: Vec<N>,
    mut parent_of: impl FnMut(&mut N) -> &mut Option<u32>,
) -> (Vec<N>, Vec<u32>) {
    let mut nodes = nodes;
    let parents: Vec<Option<u32>> = nodes.iter_mut().map(|node| *parent_of(node)).collect();
    // Children come after their parents: sizes add up from the end.
    let mut sizes = vec![1; nodes.len()];
    for (i, parent) in parents.iter().enumerate().rev() {
        if let Some(parent) = parent {
            sizes[*parent as usize] += sizes[i];
        }
    }
    // Where the next child of a node begins; the last one is of those without a parent.
    let mut next: Vec<u32> = vec![0; nodes.len() + 1];
    let mut numbers = Vec::with_capacity(nodes.len());
    for (i, parent) in parents.iter().enumerate() {
        let parent = parent.map_or(nodes.len(), |it| it as usize);
        let number = next[parent];
        next[parent] += sizes[i];
        next[i] = number + 1;
        numbers.push(number);
    }
    let mut ordered: Vec<(u32, N)> = numbers.iter().copied().zip(nodes).collect();
    ordered.sort_unstable_by_key(|(number, _)| *number);
    let ordered = ordered.into_iter().map(|(_, mut node)| {
        let parent = parent_of(&mut node);
        *parent = parent.map(|it| numbers[it as usize]);
        node
    });
    (ordered.collect(), numbers)
}
