"""Contact: where shapes touch (geometry), what happens when they meet (impact), who pushes whom (complementarity)."""
