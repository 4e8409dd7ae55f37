;; attack: as many mutable globals as may be
;; expect: replied done
;; generate: globals count=19990
