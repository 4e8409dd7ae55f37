;; attack: as many locals that live across as many blocks as may be
;; expect: replied done
;; generate: live-locals functions=1 locals=500 blocks=7800
