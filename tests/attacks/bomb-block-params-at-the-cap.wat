;; attack: as many values passed to blocks as may be
;; expect: replied done
;; generate: block-params params=500 blocks=990
