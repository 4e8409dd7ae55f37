;; attack: locals that all live across all blocks
;; expect: admission refused: locals times blocks
;; generate: live-locals functions=1 locals=10000 blocks=30000
