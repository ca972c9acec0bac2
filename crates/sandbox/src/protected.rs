//! Protected paths: what other programs execute later, so a run may read it and never write it.
