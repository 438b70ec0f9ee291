extends RefCounted
## Random streams: one seed for every (base seed, environment, episode, agent).
##
## The same numbers as `episode_seed` in Python; docs/protocol.md gives the formula. The mixer is
## that of splitmix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators").

const GOLDEN := -7046029254386353131  # 0x9E3779B97F4A7C15
const MIX_1 := -4658895280553007687  # 0xBF58476D1CE4E5B9
const MIX_2 := -7723592293110705685  # 0x94D049BB133111EB
## The episode number of draws that are made before the first episode (in `_ready`).
const SETUP_EPISODE := 0xFFFFFFFF


static func _shift_right(value: int, bits: int) -> int:
	return (value >> bits) & ((1 << (64 - bits)) - 1)


## Turns any 64 bits into well-mixed ones, one to one.
static func mix(z: int) -> int:
	z = (z ^ _shift_right(z, 30)) * MIX_1
	z = (z ^ _shift_right(z, 27)) * MIX_2
	return z ^ _shift_right(z, 31)


## Seed of one agent's episode in one environment.
static func episode_seed(base: int, environment: int, episode: int, agent: int = 0) -> int:
	var result := mix(base + ((environment << 32) + episode + 1) * GOLDEN)
	return result if agent == 0 else mix(result + agent * GOLDEN)
